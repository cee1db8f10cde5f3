import type { WebSocket } from 'ws';

/**
 * Most pings that wait for a pong; no more are ever on their way. A client may answer several pings with one pong, and
 * must not save the others up for a flood.
 */
const MAX_AWAITED = 64;

/**
 * Most pongs on their way out. Beyond them only the newest ping is answered, as RFC 6455 (5.5.3) allows: a
 * client that does not read its pongs cannot make them pile up.
 */
const MAX_UNWRITTEN = 64;

/** Tracks the pings of one socket in both directions, and matches incoming pongs to the pings that this side sent. */
export class Pings {
  readonly #ws: Pick<WebSocket, 'ping' | 'pong'>;
  #awaited = 0;
  #unwritten = 0;
  #newest: Buffer | undefined;

  constructor(ws: Pick<WebSocket, 'ping' | 'pong'>) {
    this.#ws = ws;
  }

  /** Answers a ping of the client. `ws` itself would cut a client off at the 61st ping of a burst. */
  answer(data: Buffer): void {
    if (this.#unwritten >= MAX_UNWRITTEN) {
      this.#newest = data;
      return;
    }
    this.#unwritten++;
    this.#ws.pong(data, false, () => {
      this.#unwritten--;
      const newest = this.#newest;
      this.#newest = undefined;
      if (newest) this.answer(newest);
    });
  }

  send(text = ''): void {
    this.#awaited = Math.min(MAX_AWAITED, this.#awaited + 1);
    this.#ws.ping(text);
  }

  /** A pong came. @returns false when no ping can have asked for it */
  answered(): boolean {
    if (this.#awaited === 0) return false;
    this.#awaited--;
    return true;
  }
}
