import { watchLag } from '../common/lag.ts';

/** Milliseconds, by performance.now() of the client. */
export interface Seen {
  /** When each message was sent; all are of the same length but perhaps the last. */
  readonly sentAt: readonly number[];
  /** When the first message that came back came, and the last. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** How many of those that were sent have come back. */
  readonly back: number;
  /** What a message lasts. */
  readonly messageMs: number;
}

/**
 * What a session streamed, as far as its client can know: the time from the first to the end of the last message that the
 * gateway sent. Each left there after the client had sent it and before the client had it back, however long a busy
 * machine kept either side waiting; and sound counts for what it lasts at least. `least` and `most` are a few milliseconds apart on an idle one.
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

/** By how much a gateway and this process are late, while a promise in seconds is held to. */
export function watchGateway(baseUrl: string): ReturnType<typeof watchLag> {
  return watchLag(async () => (await fetch(new URL('/none', baseUrl))).arrayBuffer());
}
