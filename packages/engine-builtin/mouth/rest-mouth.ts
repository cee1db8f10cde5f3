import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';

/** Share of a change of the opening that the lower lip makes; the upper lip makes the rest. */
export const LOWER_SHARE = 0.8;
/** Motion of the chin per opening of the lips. */
export const JAW_SHARE = 0.62;

/** The mouth of a face that is not speaking, in the face's own frame (lengths in IOD). */
export interface RestMouth {
  /** x, y of each point of the lip rings, with the lips just touching. */
  readonly lips: Float32Array;
  /** y of the chin. */
  readonly chin: number;
  /** Y, U, V of the cheeks: the light on the face. */
  readonly skin: readonly [number, number, number];
}

/** Returns the openings of the nine columns between the corners, from the person's right to the left. */
export function gapsOf(lips: Float32Array): Float32Array {
  const inner = RING_COUNT - 1;
  return Float32Array.from({ length: 9 }, (_, k) => {
    const { upper, lower } = lipRows(k + 1);
    return Math.max(
      0,
      (lips[(inner * RING_SIZE + lower) * 2 + 1] as number) -
        (lips[(inner * RING_SIZE + upper) * 2 + 1] as number),
    );
  });
}

/** Returns the same lips, closed. Each column moves as a whole, so the lips keep their thickness. */
export function closeLips(lips: Float32Array, gaps: Float32Array): Float32Array {
  const out = lips.slice();
  for (let k = 1; k <= 9; k++) {
    const { upper, lower } = lipRows(k);
    const gap = gaps[k - 1] as number;
    for (let ring = 0; ring < RING_COUNT; ring++) {
      const u = (ring * RING_SIZE + upper) * 2 + 1;
      const l = (ring * RING_SIZE + lower) * 2 + 1;
      out[u] = (out[u] as number) + (1 - LOWER_SHARE) * gap;
      out[l] = (out[l] as number) - LOWER_SHARE * gap;
    }
  }
  return out;
}

/** Time in which a changed expression, such as a smile, is learned, in seconds; longer than a syllable. */
const MEMORY_SEC = 1.2;
/**
 * Time in which the first frames count equally, so that a start in the middle of a word is soon corrected, in
 * seconds.
 */
const FIRST_SEC = 0.08;

/**
 * Learns the resting mouth of a face during the video. Speech moves the lips faster than this forgets, so nothing
 * of the old speech remains.
 */
export class MouthMemory {
  #rest: RestMouth | undefined;
  #seconds = 0;

  get rest(): RestMouth | undefined {
    return this.#rest;
  }

  /** @param seen the frame's mouth, closed; @param seconds since the frame before */
  learn(seen: RestMouth, seconds: number): RestMouth {
    const before = this.#rest;
    this.#seconds += seconds;
    if (!before) {
      this.#rest = { ...seen, lips: seen.lips.slice() };
      return this.#rest;
    }
    const share = Math.min(1, seconds / Math.min(MEMORY_SEC, FIRST_SEC + this.#seconds));
    const mix = (a: number, b: number): number => a + (b - a) * share;
    this.#rest = {
      lips: before.lips.map((value, i) => mix(value, seen.lips[i] as number)),
      chin: mix(before.chin, seen.chin),
      skin: [0, 1, 2].map((k) => mix(before.skin[k] as number, seen.skin[k] as number)) as [
        number,
        number,
        number,
      ],
    };
    return this.#rest;
  }

  /** Forgets the face, as after a cut. */
  reset(): void {
    this.#rest = undefined;
    this.#seconds = 0;
  }
}
