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

/** Connects as the specification says; resolves when the first frame has arrived. */
export async function connectStream({ stream_url, session_token }: SessionRecord): Promise<Stream> {
  const ws = new WebSocket(`${stream_url}?session_token=${session_token}`);
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

/** Ends a session that is no longer needed, so that its slot is free. */
export async function endSession(session: SessionRecord): Promise<void> {
  const stream = await connectStream(session);
  await stream.close();
}
