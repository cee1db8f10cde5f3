import { GROUPS, likely, meshOf, type Posed, posed } from '../video-swap/smooth.ts';

/** Time over which noise is averaged, in ms; at 25 pictures a second a new one has a third of the weight. */
const AVERAGED_MS = 100;
/** Share of an unexpected motion, beyond noise, by which the speed changes. */
const SPEED_SHARE = 0.5;
/** Pause, in ms, after which nothing is known about the motion. */
const LONGEST_PAUSE_MS = 250;

/** x and y of the head's middle, and its rotation and size as they move a point at eye distance. */
type Head = [number, number, number, number];

/**
 * Removes the network's noise from a mesh without knowing later pictures. The head is expected where its speed
 * takes it (an alpha-beta filter: Kalata 1984), and each part of the face as it was. Deviations within the noise
 * are averaged; larger ones count at once, so fast motion, blinks and speech have no lag.
 */
export class SteadyMesh {
  #reference: Float32Array | undefined;
  #head: Head = [0, 0, 0, 0];
  #speed: Head = [0, 0, 0, 0];
  #shape = new Float64Array(0);
  #lastMs = Number.NEGATIVE_INFINITY;

  /** @param ms time of arrival @returns the mesh to draw on */
  next(points: Float32Array, ms: number): Float32Array {
    this.#reference ??= points;
    const own = posed(points, this.#reference);
    const passed = Math.max(1, ms - this.#lastMs);
    this.#lastMs = ms;
    const head = headOf(own);
    if (passed > LONGEST_PAUSE_MS) {
      this.#head = head;
      this.#speed = [0, 0, 0, 0];
      this.#shape = own.shape.slice();
      return points;
    }
    const share = 1 - Math.exp(-passed / AVERAGED_MS);
    this.#follow(head, own, share, passed);
    for (const group of GROUPS) this.#average(group, own, share);
    const [centreX, centreY, re, im] = this.#head;
    return meshOf({ centreX, centreY, re: re / own.eyes, im: im / own.eyes }, this.#shape);
  }

  #follow(head: Head, own: Posed, share: number, passed: number): void {
    const expected = this.#head.map((value, k) => value + (this.#speed[k] as number) * passed);
    const away = head.map((value, k) => value - (expected[k] as number));
    const noise = likely(Math.hypot(...away) / (own.eyes * Math.hypot(own.re, own.im)));
    const weight = 1 - noise * (1 - share);
    // For pure noise, the relation of the two shares by Benedict and Bordner (1962).
    const learned = noise * (share ** 2 / (2 - share)) + (1 - noise) * SPEED_SHARE;
    for (let k = 0; k < 4; k++) {
      this.#head[k] = (expected[k] as number) + weight * (away[k] as number);
      this.#speed[k] = (this.#speed[k] as number) + (learned * (away[k] as number)) / passed;
    }
  }

  #average(group: readonly number[], own: Posed, share: number): void {
    const shape = this.#shape;
    let squares = 0;
    for (const point of group) {
      for (let k = point * 3; k < point * 3 + 2; k++) {
        squares += ((own.shape[k] as number) - (shape[k] as number)) ** 2;
      }
    }
    const noise = likely(Math.sqrt(squares / group.length) / own.eyes);
    const weight = 1 - noise * (1 - share);
    for (const point of group) {
      for (let k = point * 3; k < point * 3 + 3; k++) {
        const before = shape[k] as number;
        shape[k] = before + weight * ((own.shape[k] as number) - before);
      }
    }
  }
}

function headOf({ centreX, centreY, re, im, eyes }: Posed): Head {
  return [centreX, centreY, re * eyes, im * eyes];
}
