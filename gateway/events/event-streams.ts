import type { ServerResponse } from 'node:http';
import { EventStream, STREAM_PACE, type StreamPace } from './event-stream.ts';
import { createEventIds, type EventIds, type Seen } from './job-events.ts';

/** Most open streams of one account at each gateway. */
export const STREAMS_PER_ACCOUNT = 100;
/** Most open streams of all accounts at each gateway. */
const STREAMS = 10_000;

const TICK_MS = 1_000;

export interface EventStreams {
  readonly size: number;
  readonly ids: EventIds;
  /** @returns undefined when the account or this gateway has its maximum */
  enter(accountId: string, response: ServerResponse, seen: Seen): EventStream | undefined;
  /**
   * Ends all streams with their connections, and every stream that is opened later, so that clients use another
   * gateway.
   */
  end(): void;
}

export interface EventStreamsOptions {
  /** Secret that seals event ids. Without it they are bound to their job, but anyone could make them. */
  readonly secret?: string | undefined;
  readonly pace?: Partial<StreamPace>;
  /** Interval at which all streams are checked, in ms. */
  readonly tickMs?: number;
}

/** Creates the set of all open streams of this gateway and their common timer. */
export function createEventStreams(options: EventStreamsOptions = {}): EventStreams {
  const { tickMs = TICK_MS } = options;
  const pace = { ...STREAM_PACE, ...options.pace };
  const ids = createEventIds(options.secret ?? '');
  const streams = new Set<EventStream>();
  const byAccount = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let ended = false;

  function tick() {
    const now = performance.now();
    for (const stream of streams) stream.tick(now, pace);
  }

  function leave(accountId: string, stream: EventStream) {
    if (!streams.delete(stream)) return;
    const left = (byAccount.get(accountId) ?? 1) - 1;
    if (left > 0) byAccount.set(accountId, left);
    else byAccount.delete(accountId);
    if (streams.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    ids,
    get size() {
      return streams.size;
    },
    enter(accountId, response, seen) {
      const open = byAccount.get(accountId) ?? 0;
      if (open >= STREAMS_PER_ACCOUNT || streams.size >= STREAMS) return undefined;
      const stream = new EventStream(response, ids, seen);
      byAccount.set(accountId, open + 1);
      streams.add(stream);
      timer ??= setInterval(tick, tickMs);
      response.once('close', () => leave(accountId, stream));
      if (ended) setImmediate(() => stream.end(true));
      return stream;
    },
    end() {
      ended = true;
      for (const stream of streams) stream.end(true);
    },
  };
}
