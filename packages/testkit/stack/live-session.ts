import { once } from 'node:events';
import WebSocket from 'ws';
import { eventually } from './eventually.ts';

/** Session record of the specification. */
export interface SessionRecord {
  readonly session_id: string;
  readonly stream_url: string;
  readonly session_token: string;
  readonly prompt?: string;
  readonly max_duration_sec: number;
  readonly max_cost_usd: number;
}

/** Connected session of a client that knows only the specification. */
export interface Stream {
  readonly ws: WebSocket;
  /** First message, unparsed. */
  readonly firstFrame: string;
  /** Binary messages with the time of their arrival (performance.now()). */
  readonly media: { readonly data: Buffer; readonly at: number }[];
  /** Text messages after the first. */
  readonly texts: string[];
  /** Code and reason of the close frame, with the time of its arrival. */
  readonly closed: Promise<{ readonly code: number; readonly reason: string; readonly at: number }>;
  received(count: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Connects as the specification says; resolves when the first frame has arrived.
 * @param more of the query, for what the service offers besides
 */
export async function connectStream(
  { stream_url, session_token }: SessionRecord,
  more = '',
): Promise<Stream> {
  const ws = new WebSocket(`${stream_url}?session_token=${session_token}${more}`);
  const media: { data: Buffer; at: number }[] = [];
  const texts: string[] = [];
  const closed = new Promise<{ code: number; reason: string; at: number }>((resolve) => {
    ws.on('close', (code, reason) => resolve({ code, reason: reason.toString(), at: performance.now() }));
  });
  ws.on('error', () => {});
  ws.on('message', (data: Buffer, isBinary) => {
    if (isBinary) media.push({ data, at: performance.now() });
    else texts.push(data.toString());
  });
  await Promise.race([
    once(ws, 'message'),
    closed.then(({ code, reason }) => Promise.reject(new Error(`closed: ${code} ${reason}`))),
  ]);
  const firstFrame = texts.shift();
  if (firstFrame === undefined) throw new Error('the first frame was no text');
  return {
    ws,
    firstFrame,
    media,
    texts,
    closed,
    async received(count) {
      await eventually(`${count} messages to come back`, async () => media.length >= count || undefined);
    },
    async close() {
      ws.close();
      await closed;
    },
  };
}

/** Connected session of a client that changes it in the middle. */
export interface ChangingStream extends Stream {
  /** Names of the fields that can be changed. */
  readonly fields: readonly string[];
  /** Sends a text frame, and returns its answer. */
  ask(frame: object): Promise<Record<string, unknown>>;
}

/** Connects, and asks for changes. */
export async function connectChanging(session: SessionRecord): Promise<ChangingStream> {
  const stream = await connectStream(session, '&changes=on');
  const next = async (index: number) => {
    const text = await eventually('a text frame', async () => stream.texts[index], { withinMs: 60_000 });
    return JSON.parse(text) as Record<string, unknown>;
  };
  const { type, fields } = await next(0);
  if (type !== 'changeable') throw new Error(`the first frame after the format is ${type}`);
  return {
    ...stream,
    fields: fields as string[],
    ask(frame) {
      const index = stream.texts.length;
      stream.ws.send(JSON.stringify(frame));
      return next(index);
    },
  };
}

/** Ends a session that is no longer needed, so that its slot is free. */
export async function endSession(session: SessionRecord): Promise<void> {
  const stream = await connectStream(session);
  await stream.close();
}
