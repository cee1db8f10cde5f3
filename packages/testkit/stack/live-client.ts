import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { type Answer, type Api, apiOf } from './api.ts';
import { eventually } from './eventually.ts';
import type { Stack } from './stack.ts';
import { streamedMs } from './streamed.ts';

/** Client of voice sessions, written from the specification alone. */
export interface VoiceClient {
  readonly sessionId: string;
  readonly maxDurationSec: number;
  readonly format: { readonly sample_rate: number; readonly chunk_frames: number };
  /** Received sound messages in order. */
  readonly received: readonly Buffer[];
  /**
   * Duration in ms (monotonic clock) from the first to the end of the last message, measured where they left the
   * gateway.
   */
  readonly streamed: { readonly least: number; readonly most: number };
  /** Times of the first send and of the first and last received message, by performance.now(). */
  readonly sentAt: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Sends sound in real time until the signal aborts or the socket closes. */
  stream(signal: AbortSignal): Promise<void>;
  send(data: Buffer | string): void;
  close(): void;
  /** Received notices, if the client asked for them: the text frames after the first. */
  readonly notices: readonly {
    readonly type: string;
    readonly reason: string;
    readonly in_seconds: number;
  }[];
  /** Disappears without a close, as a machine that loses power does. */
  vanish(): void;
  readonly closed: Promise<{ readonly code: number; readonly reason: string; readonly at: number }>;
}

export interface OpenedVoice {
  readonly session_id: string;
  readonly stream_url: string;
  readonly session_token: string;
  readonly max_duration_sec: number;
  readonly max_cost_usd: number;
}

/** Longest warm-up of the models, in ms; an idle machine needs some seconds. */
const WARM_WITHIN_MS = 180_000;

/**
 * Waits until the rate card offers live sessions, of all or of the named capabilities. It asks without a key, because the key of `stack.json` has a rate
 * limit.
 */
export async function liveOffered(
  { api: { baseUrl }, kubectl }: Stack,
  wanted: readonly string[] = ['voice', 'full-live-swap'],
): Promise<void> {
  // The warm-up time depends on the machine; the offer follows soon.
  await eventually(
    'the agent to be warm',
    async () => {
      const { items } = JSON.parse(await kubectl(['get', 'gpuagents', '-o', 'json'])) as {
        items: { status?: { live?: { warming?: boolean }[] } }[];
      };
      const live = items.flatMap(({ status }) => status?.live ?? []);
      return live.length > 0 && live.every(({ warming }) => !warming) ? true : undefined;
    },
    { withinMs: WARM_WITHIN_MS, everyMs: 500 },
  );
  const anyone = apiOf({ baseUrl });
  await eventually('live sessions to be offered', async () => {
    const answer = await anyone.get('/pricing');
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
    const { capabilities } = answer.body as { capabilities: { capability: string; enabled: boolean }[] };
    const offered = capabilities.filter(({ enabled }) => enabled).map(({ capability }) => capability);
    return wanted.every((capability) => offered.includes(capability)) || undefined;
  });
}

/** Opens a session and returns the answer. */
export function openVoice(api: Api, body: Record<string, unknown> = {}): Promise<Answer> {
  return api.post('/voice/session', body);
}

export interface ConnectOptions {
  /** Alternative `host:port` of the gateway. */
  readonly through?: string | undefined;
  /** Whether the client takes notices. */
  readonly notices?: boolean;
}

/** Opens a session and connects. */
export async function connectVoice(
  api: Api,
  body: Record<string, unknown> = {},
  { through, notices: takesNotices = false }: ConnectOptions = {},
): Promise<VoiceClient> {
  const answer = await openVoice(api, body);
  if (answer.status !== 200) throw new Error(`opening was refused: ${answer.status} ${answer.text}`);
  const opened = answer.body as OpenedVoice;
  const url = new URL(opened.stream_url);
  if (through) url.host = through;
  url.searchParams.set('session_token', opened.session_token);
  if (takesNotices) url.searchParams.set('notices', 'on');
  const socket = new WebSocket(url);
  const received: Buffer[] = [];
  const notices: VoiceClient['notices'][number][] = [];
  let [firstAt, lastAt] = [0, 0];
  const closed = new Promise<{ code: number; reason: string; at: number }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason), at: performance.now() }));
  });
  const format = await new Promise<VoiceClient['format']>((resolve, reject) => {
    socket.once('error', reject);
    socket.once('message', (data) => resolve(JSON.parse(String(data)) as VoiceClient['format']));
    void closed.then(({ code, reason }) => reject(new Error(`closed with ${code} ${reason}`)));
  });
  socket.on('error', () => {});
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return void notices.push(JSON.parse(String(data)));
    lastAt = performance.now();
    firstAt ||= lastAt;
    received.push(data);
  });
  const chunkMs = (format.chunk_frames / format.sample_rate) * 1_000;
  const sentAt: number[] = [];
  let sent = 0;
  return {
    sessionId: opened.session_id,
    maxDurationSec: opened.max_duration_sec,
    format,
    received,
    notices,
    get streamed() {
      const bytes = received.reduce((sum, { length }) => sum + length, 0);
      const back = Math.ceil(bytes / (format.chunk_frames * 2));
      return streamedMs({ sentAt, firstAt, lastAt, back, messageMs: chunkMs });
    },
    get sentAt() {
      return sentAt[0] ?? Number.NaN;
    },
    get firstAt() {
      return firstAt;
    },
    get lastAt() {
      return lastAt;
    },
    async stream(signal) {
      let startedAt = performance.now();
      for (let chunk = 0; !signal.aborted && socket.readyState === WebSocket.OPEN; chunk++) {
        sentAt.push(performance.now());
        socket.send(tone(format, sent));
        sent += format.chunk_frames;
        const due = startedAt + (chunk + 1) * chunkMs;
        // A microphone does not catch up: speech beyond the gateway's allowance is lost.
        const late = performance.now() - due;
        if (late > MAX_LATE_MS) startedAt += late;
        await delay(Math.max(0, due - performance.now()), undefined, { signal }).catch(() => {});
      }
    },
    send: (data) => socket.send(data),
    close: () => socket.close(),
    vanish: () => socket.terminate(),
    closed,
  };
}

/** Charge of a session. */
export interface SessionCharge {
  readonly status: string;
  readonly reason: string | null;
  readonly chargedUsd: number;
}

/** Waits until a session is settled and returns its charge. */
export function settledSession(api: Api, id: string): Promise<SessionCharge> {
  return eventually(
    `session ${id} to be settled`,
    async () => {
      const answer = await api.get('/usage?limit=100');
      if (answer.status !== 200) return undefined;
      const entries = answer.body as {
        id: string;
        status: string;
        charged_usd: number;
        reason: string | null;
      }[];
      const entry = entries.find((one) => one.id === id);
      if (!entry || !['succeeded', 'failed'].includes(entry.status)) return undefined;
      return { status: entry.status, reason: entry.reason, chargedUsd: entry.charged_usd };
    },
    { withinMs: 90_000, everyMs: 250 },
  );
}

/** Longest delay behind real time that a client makes up for, in ms. */
const MAX_LATE_MS = 1_000;

/** Returns one chunk of a tone, beginning at a sample. */
function tone({ sample_rate, chunk_frames }: VoiceClient['format'], from: number): Buffer {
  const samples = Int16Array.from({ length: chunk_frames }, (_, i) =>
    Math.round(8_000 * Math.sin((2 * Math.PI * 220 * (from + i)) / sample_rate)),
  );
  return Buffer.from(samples.buffer);
}
