import type { WebSocket } from 'ws';

/**
 * Most pongs kept as asked for: more pings than are ever on their way. A client may answer several by one pong, and must
 * not gather a flood from those that it left out.
 */
const MOST_AWAITED = 64;

/** The pings of one socket, and which of the pongs that come they asked for. */
export class Pings {
  readonly #ws: Pick<WebSocket, 'ping'>;
  #awaited = 0;

  constructor(ws: Pick<WebSocket, 'ping'>) {
    this.#ws = ws;
  }

  send(text = ''): void {
    this.#awaited = Math.min(MOST_AWAITED, this.#awaited + 1);
    this.#ws.ping(text);
  }

  /** A pong came. @returns false when no ping can have asked for it */
  answered(): boolean {
    if (this.#awaited === 0) return false;
    this.#awaited--;
    return true;
  }
}
