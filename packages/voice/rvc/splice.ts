/**
 * Joins overlapping pieces of sound that do not fit exactly. Each is placed where it is most similar to the end of
 * the piece before (SOLA: Roucos and Wilgus, "High quality time-scale modification for speech", ICASSP 1985), and
 * faded in there.
 */
export class Splicer {
  readonly #fade: number;
  readonly #search: number;
  readonly #length: number;
  readonly #weights: Float64Array;
  /** Sound after the last piece, onto which the next one is placed. */
  #tail: Float64Array;

  /**
   * @param length samples that each piece adds @param fade samples of the overlap @param search largest shift of a
   * piece, in samples
   */
  constructor(length: number, fade: number, search: number) {
    this.#length = length;
    this.#fade = fade;
    this.#search = search;
    // The two fades of equal signals add up to 1.
    this.#weights = Float64Array.from(
      { length: fade },
      (_, i) => Math.sin((Math.PI * (i + 0.5)) / (2 * fade)) ** 2,
    );
    this.#tail = new Float64Array(fade);
  }

  /** @param piece of `length + fade + search` samples @returns the next `length` samples of the stream */
  add(piece: Float64Array): Float64Array {
    const at = this.#likest(piece);
    const out = piece.slice(at, at + this.#length);
    for (let i = 0; i < this.#fade; i++) {
      const weight = this.#weights[i] as number;
      out[i] = weight * (out[i] as number) + (1 - weight) * (this.#tail[i] as number);
    }
    this.#tail = piece.slice(at + this.#length, at + this.#length + this.#fade);
    return out;
  }

  /** Returns the place with the largest correlation with the tail, divided by the piece's own level. */
  #likest(piece: Float64Array): number {
    let [best, top] = [0, 0];
    for (let at = 0; at <= this.#search; at++) {
      let [both, own] = [0, 1e-8];
      for (let i = 0; i < this.#fade; i++) {
        const value = piece[at + i] as number;
        both += value * (this.#tail[i] as number);
        own += value * value;
      }
      const like = both / Math.sqrt(own);
      if (like > top) [best, top] = [at, like];
    }
    return best;
  }
}
