import type { Frame } from './frame-part.ts';

const BINS = 32;
/** Every pixel of this many, in both directions, is looked at. */
const STEP = 6;
/** The frame is compared in this many parts each way: a cut between two pictures of one brightness shows in them. */
const PARTS = 3;
/** Share of the looked-at pixels that changed their brightness' bin between frames of different shots. */
const CUT_SHARE = 0.38;
/** How much more that is than between the frames before: what flashes and shakes throughout is no series of cuts. */
const CUT_RATIO = 2.5;

/** Finds hard cuts by histograms of brightness (Zhang, Kankanhalli and Smoliar 1993), taken in parts of the frame. */
export class CutDetector {
  #last: Float32Array | undefined;
  #usual = 0;

  /** Whether this frame begins another shot than the one before. */
  isCut(frame: Frame): boolean {
    const now = histograms(frame);
    const last = this.#last;
    this.#last = now;
    if (!last) return false;
    let changed = 0;
    for (let i = 0; i < now.length; i++) changed += Math.abs((now[i] as number) - (last[i] as number));
    changed /= 2 * PARTS * PARTS;
    const cut = changed > CUT_SHARE && changed > CUT_RATIO * this.#usual;
    if (!cut) this.#usual = 0.8 * this.#usual + 0.2 * changed;
    return cut;
  }
}

/** Histograms of brightness of the parts of a frame, each of which sums to 1. Neighbouring bins share what lies between. */
function histograms({ width, height, data }: Frame): Float32Array {
  const out = new Float32Array(PARTS * PARTS * BINS);
  const counts = new Float32Array(PARTS * PARTS);
  for (let y = STEP >> 1; y < height; y += STEP) {
    const row = Math.floor((y * PARTS) / height) * PARTS;
    for (let x = STEP >> 1; x < width; x += STEP) {
      const part = row + Math.floor((x * PARTS) / width);
      const place = ((data[y * width + x] as number) * (BINS - 1)) / 255;
      const bin = place | 0;
      const upper = place - bin;
      const at = part * BINS + bin;
      out[at] = (out[at] as number) + 1 - upper;
      if (upper > 0) out[at + 1] = (out[at + 1] as number) + upper;
      counts[part] = (counts[part] as number) + 1;
    }
  }
  for (let i = 0; i < out.length; i++) {
    out[i] = (out[i] as number) / Math.max(1, counts[Math.floor(i / BINS)] as number);
  }
  return out;
}
