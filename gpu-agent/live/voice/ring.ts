/**
 * The latest samples of a stream, addressed by their number from its start. A few are kept twice, behind the end, so
 * that whoever reads a short run never meets the seam.
 */
export class Ring {
  /** Sample `n` lies at `n & mask`, and {@link GUARD} samples from there on follow it. */
  readonly data: Float32Array;
  readonly mask: number;

  /** @param atLeast how many samples must stay readable */
  constructor(atLeast: number) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(atLeast, 2 * GUARD)));
    this.data = new Float32Array(size + GUARD);
    this.mask = size - 1;
  }

  write(n: number, value: number): void {
    const at = n & this.mask;
    this.data[at] = value;
    if (at < GUARD) this.data[at + this.mask + 1] = value;
  }

  read(n: number): number {
    return this.data[n & this.mask] as number;
  }
}

/** Longest run that may be read across the seam. */
export const GUARD = 32;
