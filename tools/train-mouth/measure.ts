import { FRAME_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import type { PoseOptions } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';
import { correlation, shifted } from '@semblance/testkit/sound/correlation';
import { posesOf } from '@semblance/testkit/sound/poses';
import type { Utterance } from './speech.ts';
import { mouthTargets, soundClass } from './targets.ts';

export interface Figures {
  /** Correlation of the openness with the phonemes' targets. */
  readonly opennessR: number;
  readonly spreadR: number;
  readonly roundingR: number;
  /** Mean of the widest opening in each open vowel, divided by the mean of the narrowest in each bilabial. */
  readonly vowelToBilabial: number;
  readonly vowel: number;
  readonly bilabial: number;
  /** Share of the bilabials in which the opening falls below 0.03 IOD. */
  readonly closedShare: number;
  /** Share of frames of other sounds, without silence, in which the lips are wrongly closed. */
  readonly wronglyClosed: number;
  /** Delay of the mouth with the best correlation, in seconds. */
  readonly lag: number;
}

/** Compares the poses of speech with the targets of its phonemes. */
export async function measure(utterances: readonly Utterance[], options?: PoseOptions): Promise<Figures> {
  const said: number[][] = [];
  const asked: number[][] = [];
  const vowels: number[] = [];
  const bilabials: number[] = [];
  let others = 0;
  let wrong = 0;
  for (const { samples, phones } of utterances) {
    const poses = await posesOf(samples, options);
    const targets = mouthTargets(phones, poses.length / FRAME_RATE);
    for (const [i, pose] of poses.entries()) {
      said.push([pose.openness, pose.spread, pose.rounding]);
      asked.push([0, 1, 2].map((k) => targets.data[i * 4 + k] as number));
    }
    for (const { sound, start, end } of phones) {
      const kind = soundClass(sound);
      const span = poses.slice(Math.round(start * FRAME_RATE), Math.round(end * FRAME_RATE));
      if (span.length < 2) continue;
      const openness = span.map((pose) => pose.openness);
      if (kind === 'open vowel') vowels.push(Math.max(...openness));
      else if (kind === 'bilabial') bilabials.push(Math.min(...openness));
      if (kind === 'bilabial' || kind === 'silence') continue;
      const inside = span.slice(2, -2);
      others += inside.length;
      wrong += inside.filter((pose) => pose.closed).length;
    }
  }
  const column = (rows: number[][], k: number): number[] => rows.map((row) => row[k] as number);
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const [a, b] = [column(said, 0), column(asked, 0)];
  const lags = Array.from({ length: 21 }, (_, i) => i - 10);
  const best = lags.reduce((x, y) => (shifted(a, b, y) > shifted(a, b, x) ? y : x));
  return {
    opennessR: correlation(a, b),
    spreadR: correlation(column(said, 1), column(asked, 1)),
    roundingR: correlation(column(said, 2), column(asked, 2)),
    vowelToBilabial: mean(vowels) / Math.max(1e-3, mean(bilabials)),
    vowel: mean(vowels),
    bilabial: mean(bilabials),
    closedShare: bilabials.filter((value) => value < 0.03).length / bilabials.length,
    wronglyClosed: wrong / Math.max(1, others),
    lag: best / FRAME_RATE,
  };
}
