import { smoothstep } from '@semblance/vision/plane/plane';

/** Upper and lower lid, outer and inner corner of the right and the left eye. */
const EYES = [
  [159, 145, 33, 133],
  [386, 374, 263, 362],
] as const;
/**
 * Openness relative to the eye's usual one: closed below the first value, open above the second. The mesh reads
 * closed eyes of filmed people as 0.62 to 0.73 and squinting ones as 0.83 or more.
 */
const CLOSED = 0.74;
const OPEN = 0.82;
/** The same where an iris that is usually seen is not; the mesh follows some blinks only half-way. */
const VANISHED = [0.86, 0.93] as const;
/** How surely an iris is seen at least, and where it is not seen at all. */
const SEEN = [0.1, 0.3] as const;
/**
 * Openness from which an eye updates its usual openness; rate per frame at which that rises and at which it falls.
 */
const TELLS = 0.85;
const FOLLOWS = 0.05;
const FORGETS = 0.001;
/**
 * The rate at which the usual sight of an iris is updated, after the first frames, whose mean it is; and the share of
 * that rate while the eye is closed, which says little about it.
 */
const FOLLOWS_SEEN = 0.1;
const WHILE_CLOSED = 0.05;

/** Right and left eye. */
export type Openness = readonly [number, number];

/**
 * Estimates how far the eyes of one face are closed, relative to their usual openness, which differs between faces.
 */
export class Eyelids {
  readonly #usual: [number, number] = [0, 0];
  readonly #seen: [number, number] = [0, 0];
  readonly #frames: [number, number] = [0, 0];

  /** @param openness of the first frames; their majority counts as usual until more is known */
  constructor(openness: readonly Openness[] = []) {
    for (const side of [0, 1] as const) {
      const seen = openness.map((eyes) => eyes[side]).sort((a, b) => a - b);
      this.#usual[side] = seen[Math.floor(0.7 * (seen.length - 1))] ?? 0;
    }
  }

  /**
   * @param openness in the next frame
   * @param seen how surely the iris of each eye is seen there, 0–1
   * @returns how far the right and the left eye are closed, 0–1
   */
  closed(openness: Openness, seen: readonly [number, number] = [0, 0]): [number, number] {
    return [this.#closed(openness[0], seen[0], 0), this.#closed(openness[1], seen[1], 1)];
  }

  #closed(open: number, seen: number, side: 0 | 1): number {
    const usual = this.#usual[side] || open;
    this.#usual[side] = usual + (open - usual) * (open > TELLS * usual ? FOLLOWS : FORGETS);
    const share = open / Math.max(1e-6, usual);
    const shut = 1 - smoothstep(CLOSED, OPEN, share);
    const vanished =
      this.#seen[side] * (1 - smoothstep(...VANISHED, share)) * (1 - smoothstep(...SEEN, seen));
    const closed = Math.max(vanished, shut);
    const rate = Math.max(FOLLOWS_SEEN, 1 / ++this.#frames[side]) * Math.max(WHILE_CLOSED, 1 - closed);
    this.#seen[side] += rate * (seen - this.#seen[side]);
    return closed;
  }
}

/**
 * Returns the openness of both eyes of a mesh: height over width in space, so that it does not depend on the
 * rotation of the head. A mesh that was averaged over time hides a blink.
 * @param points stride 3
 */
export function opennessOf(points: Float32Array): Openness {
  const apart = (a: number, b: number): number =>
    Math.hypot(
      (points[a * 3] as number) - (points[b * 3] as number),
      (points[a * 3 + 1] as number) - (points[b * 3 + 1] as number),
      (points[a * 3 + 2] as number) - (points[b * 3 + 2] as number),
    );
  const [right, left] = EYES.map(
    ([upper, lower, outer, inner]) => apart(upper, lower) / Math.max(1e-6, apart(outer, inner)),
  );
  return [right as number, left as number];
}
