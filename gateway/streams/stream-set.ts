import { Standstill } from '@semblance/common/standstill';
import type { Stream } from './stream.ts';

export interface StreamSetOptions {
  /** Returns milliseconds of a monotonic clock. */
  readonly clock: () => number;
  /** Interval at which all streams are checked, in ms. */
  readonly tickMs: number;
  /** Called when the last stream has left. */
  readonly onEmpty: () => void;
}

/** Open streams of this gateway, with their common timer. */
export interface StreamSet {
  add(stream: Stream): void;
  delete(stream: Stream): void;
  all(): readonly Stream[];
  /** Returns by how many ms this process is late at the time. */
  lateMs(now: number): number;
  readonly size: number;
}

export function createStreamSet({ clock, tickMs, onEmpty }: StreamSetOptions): StreamSet {
  const streams = new Set<Stream>();
  const standstill = new Standstill(tickMs);
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    const now = clock();
    const late = standstill.lateMs(now);
    if (late > 0) for (const stream of streams) stream.unread(late, now);
    if (standstill.was(now)) return;
    for (const stream of streams) stream.tick(now);
  }

  return {
    add(stream) {
      streams.add(stream);
      if (timer) return;
      timer = setInterval(tick, tickMs);
      standstill.begin(clock());
    },
    delete(stream) {
      streams.delete(stream);
      if (streams.size > 0) return;
      clearInterval(timer);
      timer = undefined;
      onEmpty();
    },
    all: () => [...streams],
    lateMs: (now) => standstill.lateMs(now),
    get size() {
      return streams.size;
    },
  };
}
