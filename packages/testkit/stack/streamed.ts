import { watchLag } from '../common/lag.ts';

/** Measurements of a client in ms, by performance.now(). */
export interface Seen {
  /** Send time of each message; all but perhaps the last have equal length. */
  readonly sentAt: readonly number[];
  /** Arrival times of the first and the last returned message. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** Number of sent messages that have come back. */
  readonly back: number;
  /** Duration of a message in ms. */
  readonly messageMs: number;
}

/**
 * Returns the streamed time of a session as far as its client can know it: from the first to the end of the last
 * message that the gateway sent. Each message left the gateway after the client had sent it and before the client
 * received it, however busy the machine was. Sound counts at least its own duration. On an idle machine `least` and
 * `most` are a few milliseconds apart.
 */
export function streamedMs({ sentAt, firstAt, lastAt, back, messageMs }: Seen): {
  readonly least: number;
  readonly most: number;
} {
  const [first = Number.NaN, last = Number.NaN] = [sentAt[0], sentAt[back - 1]];
  return {
    least: Math.max(0, last - firstAt) + messageMs,
    most: Math.max(lastAt - first, (back - 1) * messageMs) + messageMs,
  };
}

/** Measures the delays of a gateway and of this process while a time limit is tested. */
export function watchGateway(baseUrl: string): ReturnType<typeof watchLag> {
  return watchLag(async () => (await fetch(new URL('/none', baseUrl))).arrayBuffer());
}
