import type { Ring } from './ring.ts';

/** Search range of a mark around its expected position, as a share of a period. */
const SEARCH = 0.2;
/** Longest reach of the comparison after a mark, in seconds; otherwise it extends half a period on each side. */
const AFTER_SEC = 0.005;
/** Step of the first, rough pass, in seconds. */
const ROUGH_SEC = 1 / 12_000;
/** Number of remembered marks: those of the delay at the highest pitch, with a margin. */
const KEPT = 64;

/**
 * Marks in a voice, one per period, all at the same phase. The first is on an extreme of the wave. Each further one
 * is where the sound is most similar to that around the mark before, interpolated by a parabola. Praat does the
 * same ("Sound & Pitch: To PointProcess (cc)"), here only forwards.
 */
export class PitchMarks {
  readonly #sound: Ring;
  readonly #after: number;
  readonly #rough: number;
  readonly #marks = new Float64Array(KEPT);
  #count = 0;

  constructor(sound: Ring, sampleRate: number) {
    this.#sound = sound;
    this.#after = Math.round(AFTER_SEC * sampleRate);
    this.#rough = Math.max(1, Math.round(ROUGH_SEC * sampleRate));
  }

  /**
   * Starts again with a mark at the largest sample from `from` up to but not including `to`. @returns its position
   */
  begin(from: number, to: number): number {
    let at = from;
    let largest = -1;
    for (let n = from; n < to; n++) {
      const size = Math.abs(this.#sound.at(n));
      if (size > largest) {
        largest = size;
        at = n;
      }
    }
    this.#marks[0] = at;
    this.#count = 1;
    return at;
  }

  /** Adds the marks in the sound before `end`. */
  extend(end: number, period: number): void {
    const after = Math.min(period / 2, this.#after);
    for (;;) {
      const last = this.#marks[(this.#count - 1) % KEPT] as number;
      if (last + (1 + SEARCH) * period + after + 2 > end) return;
      this.#marks[this.#count++ % KEPT] = this.#next(last, period, Math.round(after));
    }
  }

  nearest(place: number): number {
    let best = this.#marks[(this.#count - 1) % KEPT] as number;
    for (let i = 2; i <= Math.min(KEPT, this.#count); i++) {
      const mark = this.#marks[(this.#count - i) % KEPT] as number;
      if (Math.abs(mark - place) > Math.abs(best - place)) break;
      best = mark;
    }
    return best;
  }

  #next(last: number, period: number, after: number): number {
    const middle = Math.round(last);
    const before = Math.round(period / 2);
    const [first, most] = [Math.round((1 - SEARCH) * period), Math.round((1 + SEARCH) * period)];
    let best = Math.round(period);
    let top = Number.NEGATIVE_INFINITY;
    for (let lag = first; lag <= most; lag += this.#rough) {
      const like = this.#likeness(middle, lag, before, after, this.#rough);
      if (like > top) {
        top = like;
        best = lag;
      }
    }
    const fine = Math.max(1, this.#rough >> 1);
    const rough = best;
    top = Number.NEGATIVE_INFINITY;
    for (let lag = rough - this.#rough; lag <= rough + this.#rough; lag++) {
      const like = this.#likeness(middle, lag, before, after, fine);
      if (like > top) {
        top = like;
        best = lag;
      }
    }
    const left = this.#likeness(middle, best - 1, before, after, fine);
    const right = this.#likeness(middle, best + 1, before, after, fine);
    const bend = left - 2 * top + right;
    const shift = bend < 0 ? Math.max(-0.5, Math.min(0.5, (0.5 * (left - right)) / bend)) : 0;
    return last + best + shift;
  }

  /** Returns the normalised cross-correlation of the sound around a position and `lag` samples later. */
  #likeness(middle: number, lag: number, before: number, after: number, step: number): number {
    const { data, mask } = this.#sound;
    let [product, one, other] = [0, 0, 0];
    for (let n = middle - before; n <= middle + after; n += step) {
      const a = data[n & mask] as number;
      const b = data[(n + lag) & mask] as number;
      product += a * b;
      one += a * a;
      other += b * b;
    }
    const both = one * other;
    return both > 0 ? product / Math.sqrt(both) : 0;
  }
}
