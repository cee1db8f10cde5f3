import { FRAME_RATE } from '../audio/log-mel.ts';
import { type MouthPose, measureLevel, mouthPoses, type PoseOptions } from '../audio/mouth-track.ts';
import type { Utterance } from './speech.ts';
import { mouthTargets, soundClass } from './targets.ts';

export interface Figures {
  /** Correlation of the openness with that the phonemes ask for. */
  readonly opennessR: number;
  readonly spreadR: number;
  readonly roundingR: number;
  /** Mean of the widest opening in each open vowel over the mean of the narrowest in each bilabial. */
  readonly vowelToBilabial: number;
  readonly vowel: number;
  readonly bilabial: number;
  /** Share of the bilabials in which the lips come as near as 0.03 IOD. */
  readonly closedShare: number;
  /** Share of frames of other sounds (silence apart) in which the lips are closed wrongly. */
  readonly wronglyClosed: number;
  /** Delay of the mouth at which it fits best, seconds. */
  readonly lag: number;
}

async function* pieces(samples: Float32Array): AsyncGenerator<Float32Array> {
  for (let at = 0; at < samples.length; at += 16_000) yield samples.subarray(at, at + 16_000);
}

/** All poses of a sound. */
export async function posesOf(samples: Float32Array, options?: PoseOptions): Promise<MouthPose[]> {
  const level = await measureLevel(pieces(samples));
  const out: MouthPose[] = [];
  for await (const pose of mouthPoses(pieces(samples), level, options)) out.push(pose);
  return out;
}

/** Compares the poses of speech with what its phonemes ask for. */
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

/** Correlation when `a` comes `lag` steps after `b`. */
export function shifted(a: readonly number[], b: readonly number[], lag: number): number {
  return lag >= 0 ? correlation(a.slice(lag), b.slice(0, b.length - lag)) : shifted(b, a, -lag);
}

export function correlation(a: readonly number[], b: readonly number[]): number {
  const n = Math.min(a.length, b.length);
  let [sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    sa += x;
    sb += y;
    saa += x * x;
    sbb += y * y;
    sab += x * y;
  }
  return (n * sab - sa * sb) / Math.sqrt(Math.max(1e-12, (n * saa - sa * sa) * (n * sbb - sb * sb)));
}
