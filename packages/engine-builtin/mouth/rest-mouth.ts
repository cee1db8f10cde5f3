import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';

/** How much of the change of the opening the lower lip makes; the upper one makes the rest. */
export const LOWER_SHARE = 0.8;
/** How far the chin goes down for each length that the lips open. */
export const JAW_SHARE = 0.62;

/** The mouth a face has when it is not speaking, in the face's own frame (lengths in IOD). */
export interface RestMouth {
  /** x, y of each point of the lip rings, with the lips just touching. */
  readonly lips: Float32Array;
  /** y of the chin. */
  readonly chin: number;
  /** Y, U, V of the cheeks: the light that falls on the face. */
  readonly skin: readonly [number, number, number];
}

/** Openings of the nine columns between the corners, from the person's right to the left. */
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

/** The same lips, closed: each column is moved together as a whole, so that the lips keep their thickness. */
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

/** Time in which a changed expression, such as a smile, is taken over, seconds: longer than a syllable. */
const MEMORY_SEC = 1.2;
/** The first frames count alike, so that a start in the middle of a word is soon corrected. */
const FIRST_SEC = 0.08;

/**
 * Learns a face's resting mouth while the video runs. What speech does to the lips goes faster than it forgets, so that
 * none of the old speech is left in it.
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
