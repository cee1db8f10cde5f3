import type { RgbImage } from '@semblance/vision/picture';
import { luma } from './light.ts';

const LEVELS = 32;
/** Step between the bytes that are sampled: every fifth pixel. */
const STEP = 15;
/** Mean distance between a pixel's colour and the colour of its brightness, below which a picture has one tone. */
const ONE_TONE = 3;

/**
 * The colour of each brightness in a picture of one tone, such as grey, sepia or a blueprint. Everything that is
 * put into such a picture must follow it.
 */
export interface Tone {
  /** Offsets from the brightness in each channel, by brightness: LEVELS triples. */
  readonly differences: Float32Array;
}

/** Returns the tone of a picture or of the part around a face; undefined when it has colours. */
export function findTone(image: RgbImage): Tone | undefined {
  const sums = new Float64Array(LEVELS * 3);
  const counts = new Float64Array(LEVELS);
  const { data } = image;
  const levelOf = (p: number): number =>
    luma(data[p] as number, data[p + 1] as number, data[p + 2] as number);
  const bin = (level: number): number =>
    Math.min(LEVELS - 1, Math.max(0, Math.floor((level / 256) * LEVELS)));
  for (let p = 0; p < data.length; p += STEP) {
    const level = levelOf(p);
    const k = bin(level);
    counts[k] = (counts[k] as number) + 1;
    for (let c = 0; c < 3; c++)
      sums[k * 3 + c] = (sums[k * 3 + c] as number) + (data[p + c] as number) - level;
  }
  const differences = new Float32Array(LEVELS * 3);
  let last = [0, 0, 0];
  for (let k = 0; k < LEVELS; k++) {
    const count = counts[k] as number;
    if (count > 0) last = [0, 1, 2].map((c) => (sums[k * 3 + c] as number) / count);
    differences.set(last, k * 3);
  }
  let deviation = 0;
  for (let p = 0; p < data.length; p += STEP) {
    const level = levelOf(p);
    const k = bin(level);
    for (let c = 0; c < 3; c++) {
      deviation += Math.abs((data[p + c] as number) - level - (differences[k * 3 + c] as number));
    }
  }
  return deviation / (data.length / (STEP / 3)) < ONE_TONE ? { differences } : undefined;
}

/** Gives a colour the tone of its brightness. */
export function applyTone(tone: Tone, rgb: Float32Array): void {
  const level = luma(rgb[0] as number, rgb[1] as number, rgb[2] as number);
  const place = Math.min(LEVELS - 1, Math.max(0, (level / 256) * LEVELS - 0.5));
  const k = Math.min(LEVELS - 2, Math.floor(place));
  const f = place - k;
  for (let c = 0; c < 3; c++) {
    const a = tone.differences[k * 3 + c] as number;
    const b = tone.differences[(k + 1) * 3 + c] as number;
    rgb[c] = level + a + (b - a) * f;
  }
}
