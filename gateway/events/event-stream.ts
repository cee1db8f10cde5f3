import type { ServerResponse } from 'node:http';
import type { JobState } from '@semblance/proto/semblance/control/v1/control';
import { type EventIds, type Seen, tellNews } from './job-events.ts';

/** Times in ms. */
export interface StreamPace {
  /** Silence after which a heartbeat is sent, for clients and proxies. */
  readonly heartbeat: number;
  /** Time after which a client that reads nothing is dropped. */
  readonly stuck: number;
  /** Time after which a stream ends, so that its client comes back with a key that is still valid. */
  readonly lifetime: number;
}

export const STREAM_PACE: StreamPace = { heartbeat: 15_000, stuck: 30_000, lifetime: 30 * 60_000 };

/**
 * The event stream of one client. Nothing is written until the client has taken what was written before; meanwhile
 * only the newest state is kept. So a stream holds at most the few events of one state as bytes, and one state.
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

  /** @param retryMs pause that the client is asked to make before it reconnects */
  begin(retryMs: number): void {
    // Written alone, the head becomes one flat string in memory. Written with the first bytes of the body, it would
    // stay a rope that takes 1.5 kB more per stream.
    this.#response.flushHeaders();
    this.#write(`retry: ${retryMs}\n\n`);
  }

  /** Sends the parts of the state that are new to the client, now or when it can take them. */
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

  /** Sends due heartbeats and ends stuck or old streams. Must be called about once a second. */
  tick(now: number, { heartbeat, stuck, lifetime }: StreamPace): void {
    const silent = now - this.#wroteAt;
    if (this.#busy || this.#ended) {
      if (silent >= stuck) this.#response.destroy();
    } else if (now - this.#opened >= lifetime) this.end();
    else if (silent >= heartbeat) this.#write(':\n\n', now);
  }

  /**
   * Ends the stream in order, so that the client reconnects.
   * @param disconnect also closes this connection
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
