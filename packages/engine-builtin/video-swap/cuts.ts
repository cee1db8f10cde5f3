import type { Frame } from './frame-part.ts';

const BINS = 32;
const LEVELS = 256;
/** Step between the examined pixels, in both directions. */
const STEP = 6;
/**
 * Number of parts in each direction that are compared separately, which shows a cut between two pictures of equal
 * brightness.
 */
const PARTS = 3;
/** Share of the examined pixels whose brightness bin changes between frames of different shots. */
const CUT_SHARE = 0.38;
/**
 * The same where a cut that is none does no harm: between two views of one scene, which a cut may also lead to, 0.2 of
 * the pixels change or more, and 0.07 when a camera pans fast.
 */
export const WARY_CUT_SHARE = 0.15;
/**
 * Factor by which that share must exceed the share in the frames before: constant flashing and shaking is no series
 * of cuts.
 */
const CUT_RATIO = 2.5;

/** Finds hard cuts by histograms of brightness (Zhang, Kankanhalli and Smoliar 1993), taken in parts of the frame. */
export class CutDetector {
  readonly #share: number;
  #last: Float32Array | undefined;
  #usual = 0;

  /** @param share of the examined pixels from which a change is a cut */
  constructor(share = CUT_SHARE) {
    this.#share = share;
  }

  /** Returns whether this frame begins another shot than the frame before. */
  isCut(frame: Frame): boolean {
    const now = histograms(frame);
    const last = this.#last;
    this.#last = now;
    if (!last) return false;
    let changed = 0;
    for (let i = 0; i < now.length; i++) changed += Math.abs((now[i] as number) - (last[i] as number));
    changed /= 2 * PARTS * PARTS;
    const cut = changed > this.#share && changed > CUT_RATIO * this.#usual;
    if (!cut) this.#usual = 0.8 * this.#usual + 0.2 * changed;
    return cut;
  }
}

/**
 * Returns the brightness histograms of the parts of a frame; each sums to 1. Neighbouring bins share the values
 * between them.
 */
function histograms({ width, height, data }: Frame): Float32Array {
  const columns = Math.floor((width - 1 - (STEP >> 1)) / STEP) + 1;
  const partOf = Int32Array.from({ length: columns }, (_, i) => {
    return Math.floor((((STEP >> 1) + i * STEP) * PARTS) / width) * LEVELS;
  });
  // Levels are counted first and assigned to bins afterwards, because there are far fewer levels than pixels.
  const levels = new Int32Array(PARTS * PARTS * LEVELS);
  for (let y = STEP >> 1; y < height; y += STEP) {
    const row = Math.floor((y * PARTS) / height) * PARTS * LEVELS;
    for (let i = 0, at = y * width + (STEP >> 1); i < columns; i++, at += STEP) {
      const level = row + (partOf[i] as number) + (data[at] as number);
      levels[level] = (levels[level] as number) + 1;
    }
  }
  const out = new Float32Array(PARTS * PARTS * BINS);
  for (let part = 0; part < PARTS * PARTS; part++) {
    const counted = levels.subarray(part * LEVELS, (part + 1) * LEVELS);
    let pixels = 0;
    for (const count of counted) pixels += count;
    const share = 1 / Math.max(1, pixels);
    for (let level = 0; level < LEVELS; level++) {
      const count = (counted[level] as number) * share;
      const place = (level * (BINS - 1)) / (LEVELS - 1);
      const bin = place | 0;
      const upper = place - bin;
      const at = part * BINS + bin;
      out[at] = (out[at] as number) + count * (1 - upper);
      if (upper > 0) out[at + 1] = (out[at + 1] as number) + count * upper;
    }
  }
  return out;
}
