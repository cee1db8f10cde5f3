import type { OnProgress } from '@semblance/engine-api/engine';
import { createPace } from './pace.ts';

/** Shares of the whole that fetching and storing take each; the rest is the engine's, and the measuring's. */
const TRANSFER_SHARE = 0.05;
/**
 * Measuring a video decodes it on one core. Over the five capabilities that make videos that took 3 to 12 % of the time
 * of rendering and measuring together, on two cores.
 */
const MEASURE_SHARE = 0.08;

/** Holds what the parts of an attempt say of themselves, as the progress of the whole. */
export interface AttemptProgress {
  fetching(): void;
  /** States what the engine says; `secondsLeft` is of its render alone. */
  readonly rendering: OnProgress;
  /** @param fraction of the output that was decoded; at first none */
  measuring(fraction: number): void;
  storing(): void;
}

export function createAttemptProgress(options: {
  /** Tells whether the output will be measured by decoding it. */
  readonly measured: boolean;
  readonly onProgress: OnProgress;
  /** Milliseconds. */
  readonly now?: () => number;
}): AttemptProgress {
  const { measured, onProgress, now = Date.now } = options;
  const rendered = 1 - TRANSFER_SHARE - (measured ? MEASURE_SHARE : 0);
  const renderShare = rendered - TRANSFER_SHARE;
  let renderBegan: number | undefined;
  let measurePace: ReturnType<typeof createPace> | undefined;
  let decoded = 0;

  /** An engine knows nothing of what comes after it. */
  function withMeasuring(secondsLeft: number, took: number): number {
    if (!measured || !(secondsLeft >= 0)) return secondsLeft;
    return secondsLeft + (took + secondsLeft) * (MEASURE_SHARE / renderShare);
  }

  return {
    fetching: () => onProgress(0, 'fetch'),
    rendering(fraction, stage, secondsLeft) {
      renderBegan ??= now();
      const done = TRANSFER_SHARE + renderShare * fraction;
      if (secondsLeft === undefined) onProgress(done, stage);
      else onProgress(done, stage, withMeasuring(secondsLeft, (now() - renderBegan) / 1_000));
    },
    measuring(fraction) {
      // By what was measured of it, not by the pace of the render.
      measurePace ??= createPace(0, now());
      if (fraction > decoded) decoded = Math.min(1, fraction);
      const done = rendered + MEASURE_SHARE * decoded;
      // At the end of the length that the engine claimed, a longer video may still go on.
      const secondsLeft = decoded < 1 ? measurePace.secondsLeft(decoded, now()) : undefined;
      if (secondsLeft === undefined) onProgress(done, 'measure');
      else onProgress(done, 'measure', secondsLeft);
    },
    storing: () => onProgress(1 - TRANSFER_SHARE, 'store'),
  };
}
