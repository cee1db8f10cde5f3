import type { OnProgress } from '@semblance/engine-api/engine';
import { createPace } from './pace.ts';

/** Share of the fetch in the whole, and of the store; the rest belongs to rendering and measuring. */
const TRANSFER_SHARE = 0.05;
/**
 * Share of measuring a video, which decodes it on one core. It is 3 to 12 % of rendering and measuring together,
 * for the five capabilities that make videos.
 */
const MEASURE_SHARE = 0.08;

/** Combines the progress of an attempt's parts. */
export interface AttemptProgress {
  fetching(): void;
  /** Receives the progress of the engine; `secondsLeft` is for its render alone. */
  readonly rendering: OnProgress;
  /** @param fraction decoded part of the output; 0 at first */
  measuring(fraction: number): void;
  storing(): void;
}

export function createAttemptProgress(options: {
  /** Whether the output will be measured by decoding it. */
  readonly measured: boolean;
  readonly onProgress: OnProgress;
}): AttemptProgress {
  const { measured, onProgress } = options;
  const rendered = 1 - TRANSFER_SHARE - (measured ? MEASURE_SHARE : 0);
  const renderShare = rendered - TRANSFER_SHARE;
  let renderBegan: number | undefined;
  let measurePace: ReturnType<typeof createPace> | undefined;
  let decoded = 0;

  /** Adds the time of measuring to the engine's estimate, which is for the render alone. */
  function withMeasuring(secondsLeft: number, took: number): number {
    if (!measured || !(secondsLeft >= 0)) return secondsLeft;
    return secondsLeft + (took + secondsLeft) * (MEASURE_SHARE / renderShare);
  }

  return {
    fetching: () => onProgress(0, 'fetch'),
    rendering(fraction, stage, secondsLeft) {
      renderBegan ??= Date.now();
      const done = TRANSFER_SHARE + renderShare * fraction;
      if (secondsLeft === undefined) onProgress(done, stage);
      else onProgress(done, stage, withMeasuring(secondsLeft, (Date.now() - renderBegan) / 1_000));
    },
    measuring(fraction) {
      // Measuring has a pace of its own, other than that of the render.
      measurePace ??= createPace(0, Date.now());
      if (fraction > decoded) decoded = Math.min(1, fraction);
      const done = rendered + MEASURE_SHARE * decoded;
      // The video may be longer than the engine stated, so there is no estimate at that length.
      const secondsLeft = decoded < 1 ? measurePace.secondsLeft(decoded, Date.now()) : undefined;
      if (secondsLeft === undefined) onProgress(done, 'measure');
      else onProgress(done, 'measure', secondsLeft);
    },
    storing: () => onProgress(1 - TRANSFER_SHARE, 'store'),
  };
}
