/** Seed of every stream, so that the same sound gives the same bytes. */
const SEED = 0x5e3b1a7c;

/**
 * Normal noise, a column for each frame of a stream. A frame keeps its column while the window moves over it, so that
 * overlapping runs of a voice differ as little as possible.
 */
export class FrameNoise {
  readonly #width: number;
  readonly #frames: number;
  readonly #deviation: number;
  readonly #values: Float32Array<ArrayBuffer>;
  #state = SEED;

  /** @param width numbers of each frame @param frames frames of the window @param deviation standard deviation */
  constructor(width: number, frames: number, deviation: number) {
    this.#width = width;
    this.#frames = frames;
    this.#deviation = deviation;
    this.#values = new Float32Array(width * frames);
    this.#draw(frames);
  }

  /** Moves the window on by so many frames. @returns `width` rows of `frames`; a copy */
  next(moved: number): Float32Array<ArrayBuffer> {
    for (let row = 0; row < this.#width; row++) {
      const from = row * this.#frames;
      this.#values.copyWithin(from, from + moved, from + this.#frames);
    }
    this.#draw(moved);
    return this.#values.slice();
  }

  /** Fills the last columns, one after the other. */
  #draw(columns: number): void {
    for (let column = this.#frames - columns; column < this.#frames; column++)
      for (let row = 0; row < this.#width; row++)
        this.#values[row * this.#frames + column] = this.#deviation * this.#normal();
  }

  /** Returns a normally distributed number of deviation 1 (Box and Muller 1958). */
  #normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#uniform())) * Math.cos(2 * Math.PI * this.#uniform());
  }

  /** Returns a number in [0, 1) (mulberry32). */
  #uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}
