import { LEFT_EYE, LIPS_INNER, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import { LOOK_STEP, type Look } from '../video-swap/keys.ts';

/** Number of parts of a face across and down. */
const COLUMNS = 5;
const ROWS = 6;
/** Fewest points of a part that counts. */
const FEWEST = 3;
/**
 * Change of a part's brightness relative to the face's that may come from something in front; and a larger change
 * which, in several parts, neither light nor moving wrinkles make.
 */
const PERHAPS = 0.25;
const SURELY = { change: 0.3, parts: 2 };
/** The same for its colour beyond the face's, in levels, for objects as bright as skin. */
const COLOURED = 24;
/** Points that speech and blinks change; the swap itself follows them. */
const MOVING: ReadonlySet<number> = new Set([...LIPS_OUTER, ...LIPS_INNER, ...LEFT_EYE, ...RIGHT_EYE]);

/**
 * Detects when something comes in front of a face or goes, from the mean brightness and colour of its parts. Single
 * points, which Video Swap uses, change with every wrinkle; there an additional analysis delays nobody.
 */
export class FaceParts {
  /** For each part the indices of its points in a look. */
  readonly #parts: readonly (readonly number[])[];

  /** @param points mesh of a face that looks at the camera, which defines the parts */
  constructor(points: Float32Array) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < points.length; i += 3) {
      left = Math.min(left, points[i] as number);
      right = Math.max(right, points[i] as number);
      top = Math.min(top, points[i + 1] as number);
      bottom = Math.max(bottom, points[i + 1] as number);
    }
    const parts: number[][] = Array.from({ length: COLUMNS * ROWS }, () => []);
    const place = (value: number, from: number, to: number, count: number): number =>
      Math.min(count - 1, Math.floor((count * (value - from)) / Math.max(1e-6, to - from)));
    for (let i = 0; i < points.length / 3; i += LOOK_STEP) {
      if (MOVING.has(i)) continue;
      const column = place(points[i * 3] as number, left, right, COLUMNS);
      const row = place(points[i * 3 + 1] as number, top, bottom, ROWS);
      parts[row * COLUMNS + column]?.push(i / LOOK_STEP);
    }
    this.#parts = parts.filter(({ length }) => length >= FEWEST);
  }

  /** Returns whether something came in front of the face, or went. */
  covered(before: Look, now: Look): 'surely' | 'perhaps' | 'no' {
    const changes = this.#parts.map((part) => {
      let [light, u, v] = [0, 0, 0];
      for (const i of part) {
        light += (now.values[i] as number) - (before.values[i] as number);
        u += (now.us[i] as number) - (before.us[i] as number);
        v += (now.vs[i] as number) - (before.vs[i] as number);
      }
      const by = 1 / part.length;
      // A lamp of another colour changes the whole face.
      const colour = Math.hypot(u * by - (now.u - before.u), v * by - (now.v - before.v));
      return Math.max(Math.abs(light) * by, (colour * SURELY.change) / COLOURED);
    });
    if (changes.filter((change) => change > SURELY.change).length >= SURELY.parts) return 'surely';
    return changes.some((change) => change > PERHAPS) ? 'perhaps' : 'no';
  }
}
