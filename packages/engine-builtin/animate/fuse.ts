import type { RgbImage } from '@semblance/vision/picture';
import { KIND } from './kinds.ts';

const ROUNDS = 50;
/** Step of successive over-relaxation. */
const STEP = 1.85;
/** Most that is added, in levels: beside a strong edge that was not continued the tone would spread far. */
const MOST = 24;

/**
 * Makes one surface of a completion's copies: each keeps its relief, and their tones meet each other and what is seen
 * around them (Poisson blending; Pérez et al. 2003).
 * @param kinds a {@link KIND} for each pixel
 * @param sources as of a completion
 * @returns what is to be added to the copy at each hidden pixel
 */
export function fuse({ width, height, data }: RgbImage, kinds: Uint8Array, sources: Int32Array): RgbImage {
  const hidden: number[] = [];
  for (let i = 0; i < sources.length; i++) if ((sources[i] as number) >= 0) hidden.push(i);
  const targets = Int32Array.from(hidden);
  /** Where the colours of the neighbours of each target begin that count; -1 for others. */
  const beside = new Int32Array(targets.length * 4);
  const counts = new Uint8Array(targets.length);
  const slopes = new Float32Array(targets.length * 3);
  const now = Float32Array.from(data);
  for (let k = 0; k < targets.length; k++) {
    const target = targets[k] as number;
    const source = (sources[target] as number) * 3;
    const x = target % width;
    for (let c = 0; c < 3; c++) now[target * 3 + c] = data[source + c] as number;
    for (let n = 0; n < 4; n++) {
      const by = n < 2 ? 2 * n - 1 : width * (2 * n - 5);
      const other = target + by;
      const within =
        n === 0 ? x > 0 : n === 1 ? x < width - 1 : n === 2 ? target >= width : other < kinds.length;
      beside[k * 4 + n] = -1;
      if (!within || kinds[other] === KIND.ignored) continue;
      beside[k * 4 + n] = other * 3;
      counts[k] = (counts[k] as number) + 1;
      const from = (sources[other] as number) * 3;
      for (let c = 0; c < 3; c++) {
        let slope = (data[source + c] as number) - (data[source + 3 * by + c] as number);
        if (from >= 0) slope = (slope + (data[from - 3 * by + c] as number) - (data[from + c] as number)) / 2;
        slopes[k * 3 + c] = (slopes[k * 3 + c] as number) + slope;
      }
    }
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (let k = 0; k < targets.length; k++) {
      const count = counts[k] as number;
      if (count === 0) continue;
      let red = slopes[k * 3] as number;
      let green = slopes[k * 3 + 1] as number;
      let blue = slopes[k * 3 + 2] as number;
      for (let n = k * 4; n < k * 4 + 4; n++) {
        const other = beside[n] as number;
        if (other < 0) continue;
        red += now[other] as number;
        green += now[other + 1] as number;
        blue += now[other + 2] as number;
      }
      const at = (targets[k] as number) * 3;
      now[at] = (now[at] as number) + STEP * (red / count - (now[at] as number));
      now[at + 1] = (now[at + 1] as number) + STEP * (green / count - (now[at + 1] as number));
      now[at + 2] = (now[at + 2] as number) + STEP * (blue / count - (now[at + 2] as number));
    }
  }
  const out = new Float32Array(data.length);
  for (const target of targets) {
    for (let c = 0; c < 3; c++) {
      const by = (now[target * 3 + c] as number) - (data[(sources[target] as number) * 3 + c] as number);
      out[target * 3 + c] = Math.min(MOST, Math.max(-MOST, by));
    }
  }
  return { width, height, data: out };
}
