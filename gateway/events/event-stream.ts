import type { ServerResponse } from 'node:http';
import type { JobState } from '@semblance/proto/semblance/control/v1/control';
import { type EventIds, type Seen, tellNews } from './job-events.ts';

/** Milliseconds. */
export interface StreamPace {
  /** A sign of life for clients and whatever is between, when there was nothing to tell for so long. */
  readonly heartbeat: number;
  /** A client that takes nothing for so long is dropped. */
  readonly stuck: number;
  /** A stream ends after this time, so that its client comes back with a key that still holds. */
  readonly lifetime: number;
}

export const STREAM_PACE: StreamPace = { heartbeat: 15_000, stuck: 30_000, lifetime: 30 * 60_000 };

/**
 * The most bytes that wait in this process for a client to take them: the events of one state, with the longest link.
 */
export const STREAM_BYTES = 16 * 1024;

/**
 * The stream of one client. Nothing is written while the client has not taken what was written before; meanwhile only
 * the newest state is kept. So a stream holds, at most, the few events of one state as bytes and one state.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #ids: EventIds;
  readonly #opened: number;
  #seen: Seen;
  #wroteAt: number;
  #busy = false;
  #waiting: JobState | undefined;
  #ended = false;

  constructor(response: ServerResponse, ids: EventIds, seen: Seen, now = performance.now()) {
    this.#response = response;
    this.#ids = ids;
    this.#seen = seen;
    this.#opened = now;
    this.#wroteAt = now;
  }

  /** @param retryMs what the client is asked to wait before it reconnects */
  begin(retryMs: number): void {
    // Alone, the head is written as the string that Node keeps of it, which so becomes one piece: with the first bytes
    // of the body it would stay what it was put together from, a kilobyte and a half more for each stream.
    this.#response.flushHeaders();
    this.#write(`retry: ${retryMs}\n\n`);
  }

  /** Tells what of the state is new to the client, now or when it can take it. */
  push(state: JobState): void {
    if (this.#ended) return;
    if (this.#busy) {
      this.#waiting = state;
      return;
    }
    const { text, seen, over } = tellNews(state, this.#seen, this.#ids);
    this.#seen = seen;
    if (text !== '') this.#write(text);
    if (over) this.end();
  }

  /** Must be called every second or so. */
  tick(now: number, { heartbeat, stuck, lifetime }: StreamPace): void {
    const silent = now - this.#wroteAt;
    if (this.#busy || this.#ended) {
      if (silent >= stuck) this.#response.destroy();
    } else if (now - this.#opened >= lifetime) this.end();
    else if (silent >= heartbeat) this.#write(':\n\n', now);
  }

  /**
   * Ends it properly: the client will reconnect.
   * @param disconnect not over this connection
   */
  end(disconnect = false): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#wroteAt = performance.now();
    const { socket } = this.#response;
    this.#response.end(() => disconnect && socket?.end());
  }

  #write(text: string, now = performance.now()): void {
    this.#busy = true;
    this.#wroteAt = now;
    this.#response.write(text, this.#taken);
  }

  readonly #taken = (): void => {
    this.#busy = false;
    const state = this.#waiting;
    if (!state) return;
    this.#waiting = undefined;
    this.push(state);
  };
}
