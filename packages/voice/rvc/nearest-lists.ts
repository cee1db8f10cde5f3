import { Kernels, ROWS } from '../kernels/kernels.ts';
import type { Nearest } from './nearest.ts';
import type { VoiceIndex } from './rvc-models.ts';

/** Those of this thread, by the id of their index, as long as a stream uses them. */
const shared = new Map<string, WeakRef<NearestLists>>();

/**
 * Finds the lists of an index whose centroids are nearest to some features. Streams of one thread share it, because
 * it copies the centroids into the memory of the kernels: up to 20 MiB of them are compared ten times a second.
 */
export class NearestLists {
  readonly #kernels: Kernels;
  readonly #width: number;
  readonly #count: number;
  readonly #rows: Float32Array;
  readonly #centroids: Float32Array;
  readonly #products: Float32Array;
  /** Squared length of each centroid. */
  readonly #squares: Float64Array;

  private constructor({ width, centroids }: VoiceIndex) {
    const count = centroids.length / width;
    this.#width = width;
    this.#count = count;
    this.#kernels = new Kernels(4 * (centroids.length + ROWS * (width + count)));
    this.#rows = this.#kernels.floats(ROWS * width);
    this.#centroids = this.#kernels.floatsOf(centroids);
    this.#products = this.#kernels.floats(ROWS * count);
    this.#squares = Float64Array.from({ length: count }, (_, list) => {
      let sum = 0;
      for (const value of centroids.subarray(list * width, (list + 1) * width)) sum += value * value;
      return sum;
    });
  }

  static of(index: VoiceIndex): NearestLists {
    const there = shared.get(index.id)?.deref();
    if (there) return there;
    const made = new NearestLists(index);
    shared.set(index.id, new WeakRef(made));
    return made;
  }

  /** @param features {@link ROWS} of them @param into the nearest lists of each */
  find(features: Float32Array, into: readonly Nearest[]): void {
    this.#rows.set(features);
    const { byteOffset: rows } = this.#rows;
    this.#kernels.run.dots(
      rows,
      this.#centroids.byteOffset,
      this.#width,
      this.#count,
      this.#products.byteOffset,
    );
    for (const [row, nearest] of into.entries()) {
      nearest.clear();
      for (let list = 0; list < this.#count; list++) {
        // The squared distance less the feature's own square, which is the same for all lists.
        const distance = (this.#squares[list] as number) - 2 * (this.#products[list * ROWS + row] as number);
        if (distance < nearest.limit) nearest.add(list, distance);
      }
    }
  }
}
