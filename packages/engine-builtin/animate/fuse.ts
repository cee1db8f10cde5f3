import type { RgbImage } from '@semblance/vision/picture';
import { KIND } from './complete.ts';

const ROUNDS = 70;
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
  const targets = Int32Array.from(kinds.keys()).filter((i) => (sources[i] as number) >= 0);
  const around = targets.length * 4;
  /** The neighbours of each target that count; -1 for others. */
  const beside = new Int32Array(around).fill(-1);
  const counts = new Uint8Array(targets.length);
  const slopes = new Float32Array(targets.length * 3);
  const now = Float32Array.from(data);
  const colour = (at: number, c: number): number => data[at * 3 + c] as number;
  targets.forEach((target, k) => {
    const source = sources[target] as number;
    const [x, y] = [target % width, Math.floor(target / width)];
    for (let c = 0; c < 3; c++) now[target * 3 + c] = colour(source, c);
    [x > 0 ? -1 : 0, x < width - 1 ? 1 : 0, y > 0 ? -width : 0, y < height - 1 ? width : 0].forEach(
      (by, n) => {
        const other = target + by;
        if (by === 0 || kinds[other] === KIND.ignored) return;
        beside[k * 4 + n] = other;
        counts[k] = (counts[k] as number) + 1;
        const from = sources[other] as number;
        for (let c = 0; c < 3; c++) {
          let slope = colour(source, c) - colour(source + by, c);
          if (from >= 0) slope = (slope + colour(from - by, c) - colour(from, c)) / 2;
          slopes[k * 3 + c] = (slopes[k * 3 + c] as number) + slope;
        }
      },
    );
  });
  for (let round = 0; round < ROUNDS; round++) {
    for (let k = 0; k < targets.length; k++) {
      const count = counts[k] as number;
      if (count === 0) continue;
      const at = (targets[k] as number) * 3;
      for (let c = 0; c < 3; c++) {
        let sum = slopes[k * 3 + c] as number;
        for (let n = k * 4; n < k * 4 + 4; n++) {
          const other = beside[n] as number;
          if (other >= 0) sum += now[other * 3 + c] as number;
        }
        now[at + c] = (now[at + c] as number) + STEP * (sum / count - (now[at + c] as number));
      }
    }
  }
  const out = new Float32Array(data.length);
  for (const target of targets) {
    for (let c = 0; c < 3; c++) {
      const by = (now[target * 3 + c] as number) - colour(sources[target] as number, c);
      out[target * 3 + c] = Math.min(MOST, Math.max(-MOST, by));
    }
  }
  return { width, height, data: out };
}
