import { smoothstep } from '@semblance/vision/plane/plane';

/** Upper and lower lid, outer and inner corner of the right and the left eye. */
const EYES = [
  [159, 145, 33, 133],
  [386, 374, 263, 362],
] as const;
/**
 * Openness, as a share of what is usual for an eye, from which on it is closed and up to which it is open. The mesh reads
 * closed eyes of filmed people as 0.62 to 0.73 of open ones, and such as squint as 0.83 or more.
 */
const CLOSED = 0.74;
const OPEN = 0.82;
/** An eye this far open says what is usual for it; how fast that follows, a frame, and how fast it forgets. */
const TELLS = 0.85;
const FOLLOWS = 0.05;
const FORGETS = 0.001;

/** Of the right and the left eye. */
export type Openness = readonly [number, number];

/** How far the eyes of one face are closed, judged by how open they usually are: that differs from face to face. */
export class Eyelids {
  readonly #usual: [number, number] = [0, 0];

  /** @param openness of the first frames: what most of them show is usual until more is seen */
  constructor(openness: readonly Openness[] = []) {
    for (const side of [0, 1] as const) {
      const seen = openness.map((eyes) => eyes[side]).sort((a, b) => a - b);
      this.#usual[side] = seen[Math.floor(0.7 * (seen.length - 1))] ?? 0;
    }
  }

  /** @param openness in the next frame @returns how far the right and the left eye are closed, 0–1 */
  closed(openness: Openness): [number, number] {
    return [this.#closed(openness[0], 0), this.#closed(openness[1], 1)];
  }

  #closed(open: number, side: 0 | 1): number {
    const usual = this.#usual[side] || open;
    this.#usual[side] = usual + (open - usual) * (open > TELLS * usual ? FOLLOWS : FORGETS);
    return 1 - smoothstep(CLOSED, OPEN, open / Math.max(1e-6, usual));
  }
}

/**
 * How open both eyes of a mesh are: the height of the opening over its width, in space, so that a turned head's are those
 * of one that faces the camera. A mesh that was averaged over time hides a blink.
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
