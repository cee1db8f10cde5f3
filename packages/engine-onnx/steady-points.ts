import type { Face } from '@semblance/vision/face-mesh';
import type { Point } from '@semblance/vision/picture';
import { fiveOf } from './face-places.ts';

/** Share of a frame's own value in the smoothed one. */
const FRESH = 0.2;
/** Distance, in eye distances, by which the points of one face never move against its mesh from frame to frame. */
const JUMP = 0.15;

/** Distances of five points from those of the mesh, in units of the line between the mesh's eyes. */
type Offsets = readonly Point[];

/**
 * Keeps the five points that a landmark network finds in the frames of a video steady. The meshes of a tracked face
 * are smooth already, but the network sees each frame by itself, so a crop that it places trembles. How its points
 * lie against the mesh changes slowly, so that is averaged over the last frames (exponentially) for each track.
 */
export class SteadyPoints {
  readonly #offsets = new Map<number, { readonly index: number; readonly offsets: Offsets }>();

  /**
   * Returns the five points of a tracked face. Frames come in their order.
   * @param refined what the network finds in this frame; undefined: it is not certain
   * @param index of the frame
   */
  of(track: number, index: number, mesh: Face, refined: readonly Point[] | undefined): readonly Point[] {
    const own = fiveOf(mesh);
    const before = this.#offsets.get(track);
    const known = before && index - before.index <= 1 / FRESH ? before.offsets : undefined;
    const seen = refined && offsetsOf(own, refined);
    const offsets = seen && known && !jumps(seen, known) ? mixed(known, seen) : (seen ?? known);
    if (!offsets) return own;
    this.#offsets.set(track, { index, offsets });
    return placed(own, offsets);
  }

  /** Forgets tracks that have no face from a frame on. */
  forgetBefore(index: number): void {
    for (const [track, { index: last }] of this.#offsets) if (last < index) this.#offsets.delete(track);
  }
}

/** Returns the line between the eyes as a complex number. */
function eyesOf([right, left]: readonly Point[]): Point {
  const [a, b] = [right as Point, left as Point];
  return { x: b.x - a.x, y: b.y - a.y };
}

function offsetsOf(own: readonly Point[], refined: readonly Point[]): Offsets {
  const { x: re, y: im } = eyesOf(own);
  const squared = Math.max(1e-6, re * re + im * im);
  return refined.map(({ x, y }, i) => {
    const [dx, dy] = [x - (own[i] as Point).x, y - (own[i] as Point).y];
    return { x: (dx * re + dy * im) / squared, y: (dy * re - dx * im) / squared };
  });
}

function placed(own: readonly Point[], offsets: Offsets): Point[] {
  const { x: re, y: im } = eyesOf(own);
  return own.map(({ x, y }, i) => {
    const { x: u, y: v } = offsets[i] as Point;
    return { x: x + u * re - v * im, y: y + u * im + v * re };
  });
}

function jumps(seen: Offsets, known: Offsets): boolean {
  return seen.some(({ x, y }, i) => Math.hypot(x - (known[i] as Point).x, y - (known[i] as Point).y) > JUMP);
}

function mixed(known: Offsets, seen: Offsets): Offsets {
  return known.map(({ x, y }, i) => {
    const fresh = seen[i] as Point;
    return { x: x + FRESH * (fresh.x - x), y: y + FRESH * (fresh.y - y) };
  });
}
