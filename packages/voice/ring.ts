/**
 * The latest samples of a stream, addressed by their number from its start. The first few are repeated after the
 * end, so that reading a short run never crosses the seam.
 */
export class Ring {
  /** Sample `n` is at `n & mask`, followed by the next {@link GUARD} samples. */
  readonly data: Float32Array;
  readonly mask: number;

  /**
   * @param atLeast number of samples that must stay readable
   * @param memory allocates the given number of samples
   */
  constructor(atLeast: number, memory: (samples: number) => Float32Array) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(atLeast, 2 * GUARD)));
    this.data = memory(size + GUARD);
    this.mask = size - 1;
  }

  /** Writes the first `count` of the samples, from number `n` on. */
  write(n: number, samples: Float32Array, count: number): void {
    const { data, mask } = this;
    for (let i = 0; i < count; i++) data[(n + i) & mask] = samples[i] as number;
    const at = n & mask;
    if (at < GUARD || at + count > mask) data.copyWithin(mask + 1, 0, GUARD);
  }

  /** Reads `count` samples, from number `n` on. */
  read(n: number, into: Float32Array, count: number): void {
    const { data, mask } = this;
    for (let i = 0; i < count; i++) into[i] = data[(n + i) & mask] as number;
  }

  at(n: number): number {
    return this.data[n & this.mask] as number;
  }
}

/** Longest run that may be read across the seam. */
export const GUARD = 32;
