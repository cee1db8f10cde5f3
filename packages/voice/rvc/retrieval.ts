import { ROWS } from '../kernels/kernels.ts';
import { Nearest } from './nearest.ts';
import { NearestLists } from './nearest-lists.ts';
import type { VoiceIndex } from './rvc-models.ts';

/** Number of vectors that make the replacement of one (RVC's `index.search(npy, k=8)`). */
const NEIGHBOURS = 8;
/** Frames of content that are mixed: all that is heard of a window, as in RVC's `infer/rtrvc.py`, and one more. */
export const MIXED_FRAMES = ROWS;

/** Moves the content of a stream towards what the voice's own speaker said, by the index of her training's features. */
export class Retrieval {
  readonly #index: VoiceIndex;
  readonly #rate: number;
  readonly #lists: NearestLists;
  readonly #nearLists: readonly Nearest[];
  readonly #found = new Nearest(NEIGHBOURS);

  /** @param rate share of what is found, 0 to 1 */
  constructor(index: VoiceIndex, rate: number) {
    this.#index = index;
    this.#rate = rate;
    this.#lists = NearestLists.of(index);
    this.#nearLists = Array.from({ length: MIXED_FRAMES }, () => new Nearest(index.probes));
  }

  /**
   * Returns features whose last {@link MIXED_FRAMES} frames are mixed with the mean of the eight nearest vectors in the
   * nearest lists, weighted by 1 / d⁴ for a distance d (RVC's `infer/vc/pipeline.py`; its `score` is d²). A frame whose
   * lists are empty stays as it is.
   * @param features one frame after the other, as wide as the index; not changed
   */
  mixed(features: Float32Array): Float32Array<ArrayBuffer> {
    const { width } = this.#index;
    const out = Float32Array.from(features);
    const last = out.subarray(out.length - MIXED_FRAMES * width);
    this.#lists.find(last, this.#nearLists);
    for (const [row, lists] of this.#nearLists.entries())
      this.#mix(last.subarray(row * width, (row + 1) * width), lists);
    return out;
  }

  #mix(feature: Float32Array, lists: Nearest): void {
    const { width, starts, vectors } = this.#index;
    const found = this.#found;
    found.clear();
    for (const list of lists.places.subarray(0, lists.count)) {
      for (let place = starts[list] as number; place < (starts[list + 1] as number); place++) {
        const square = squaredDistance(feature, vectors, place * width);
        if (square < found.limit) found.add(place, square);
      }
    }
    if (found.count === 0) return;
    const weights = weightsOf(found.distances.subarray(0, found.count));
    for (let i = 0; i < width; i++) {
      let mean = 0;
      for (let k = 0; k < weights.length; k++)
        mean += (weights[k] as number) * (vectors[(found.places[k] as number) * width + i] as number);
      feature[i] = this.#rate * mean + (1 - this.#rate) * (feature[i] as number);
    }
  }
}

/** Returns shares that add up to 1. Vectors that are the same as the feature take all of it. */
function weightsOf(squares: Float64Array): Float64Array {
  const same = squares.includes(0);
  const weights = squares.map((square) => (same ? Number(square === 0) : 1 / square ** 2));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

function squaredDistance(feature: Float32Array, vectors: Float32Array, from: number): number {
  let sum = 0;
  for (let i = 0; i < feature.length; i++) {
    const difference = (feature[i] as number) - (vectors[from + i] as number);
    sum += difference * difference;
  }
  return sum;
}
