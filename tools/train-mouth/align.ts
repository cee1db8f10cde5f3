import { BANDS, FRAME_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import type { Phone } from '@semblance/speech/sounds';
import { analyse } from './corpus.ts';
import type { Utterance } from './speech.ts';

/** Added to the cost of a step off the diagonal, so that time is not stretched without a reason. */
const SLANT = 0.15;

/**
 * Locates the sounds of a synthesised utterance in a recording of the same words by another speaker, by dynamic
 * time warping (Sakoe and Chiba 1978) of their spectra. Accurate to about two frames if both say the same words.
 * @returns the sounds at the recording's times, and the mean distance of the spectra, small if the words are the
 * same
 */
export function alignPhones(
  spoken: Utterance,
  recording: Float32Array,
): { phones: Phone[]; distance: number } {
  const a = spectra(spoken.samples);
  const b = spectra(recording);
  const [n, m] = [a.length, b.length];
  const cost = new Float64Array(n * m).fill(Number.POSITIVE_INFINITY);
  const from = new Uint8Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      const here = distance(a[i] as Float32Array, b[j] as Float32Array);
      if (i === 0 && j === 0) {
        cost[0] = here;
        continue;
      }
      const diagonal = i > 0 && j > 0 ? (cost[(i - 1) * m + j - 1] as number) : Number.POSITIVE_INFINITY;
      const up = i > 0 ? (cost[(i - 1) * m + j] as number) + SLANT : Number.POSITIVE_INFINITY;
      const left = j > 0 ? (cost[i * m + j - 1] as number) + SLANT : Number.POSITIVE_INFINITY;
      const best = Math.min(diagonal, up, left);
      cost[i * m + j] = best + here;
      from[i * m + j] = best === diagonal ? 0 : best === up ? 1 : 2;
    }
  }
  // Per frame of the utterance: sum and count of the aligned frames of the recording.
  const sums = new Float64Array(n);
  const counts = new Float64Array(n);
  let [i, j] = [n - 1, m - 1];
  let steps = 0;
  for (;;) {
    sums[i] = (sums[i] as number) + j;
    counts[i] = (counts[i] as number) + 1;
    steps++;
    if (i === 0 && j === 0) break;
    const step = from[i * m + j];
    if (step !== 2) i--;
    if (step !== 1) j--;
  }
  const at = (seconds: number): number => {
    const frame = Math.min(n - 1, Math.max(0, Math.round(seconds * FRAME_RATE)));
    return (sums[frame] as number) / Math.max(1, counts[frame] as number) / FRAME_RATE;
  };
  const phones = spoken.phones.map(({ sound, start, end }) => ({ sound, start: at(start), end: at(end) }));
  return { phones, distance: (cost[n * m - 1] as number) / steps };
}

/** Returns each frame's spectrum without the recording's mean, followed by its loudness. */
function spectra(samples: Float32Array): Float32Array[] {
  const { frames, level, count } = analyse(samples);
  const mean = new Float64Array(BANDS);
  let loud = 0;
  const levels = Float64Array.from({ length: count }, (_, i) => {
    let sum = 0;
    for (let b = 0; b < BANDS; b++) sum += frames[i * BANDS + b] as number;
    return Math.max(-7, sum / BANDS - level);
  });
  for (let i = 0; i < count; i++) {
    if ((levels[i] as number) < -4) continue;
    loud++;
    for (let b = 0; b < BANDS; b++) mean[b] = (mean[b] as number) + (frames[i * BANDS + b] as number);
  }
  return Array.from({ length: count }, (_, i) => {
    const out = new Float32Array(BANDS + 1);
    const weight = (levels[i] as number) < -5 ? 0 : 1;
    for (let b = 0; b < BANDS; b++) {
      const value = (frames[i * BANDS + b] as number) - (mean[b] as number) / Math.max(1, loud);
      out[b] = (weight * Math.max(-5, value)) / Math.sqrt(BANDS);
    }
    out[BANDS] = (levels[i] as number) * 1.5;
    return out;
  });
}

function distance(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += ((a[k] as number) - (b[k] as number)) ** 2;
  return Math.sqrt(sum);
}
