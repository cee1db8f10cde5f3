import { LEFT_BROW, RIGHT_BROW } from '@semblance/vision/face-regions';
import { blur, fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';

/** Ratios of soft brows to those they replace, in darkness, up to which none and from which all of them is taken. */
const DARKER = [1.25, 2] as const;

/** Such a ratio below which any brows are faint: they would look shaven on a face whose own are dark. */
const FAINT = 0.38;

/** Rings around a brow in which hair that hangs over it is seen, as shares of the face width. */
const RING = [0.025, 0.06] as const;
/** Mesh points at the ends of the brows, beside which hair grows on the temples of many. */
const TAILS: readonly number[] = [46, 70, 276, 300];
/** Share of that ring, as the root mean square of both brows, from which a fringe hangs over them. */
const UNDER_HAIR = 0.315;

/** Distance to which brows move up and down beside their mesh, as a share of the face width, and softness of its end. */
const MOVES = 0.1;
const MOVES_SOFT = 0.02;

/** Returns 1 where the brows of a mesh may lie in other frames of a film. */
export function browReach(points: Float32Array, size: Plane, faceWidth: number): Plane {
  return blur(grow(browsOf(points, size), MOVES * faceWidth), MOVES_SOFT * faceWidth);
}

/** Returns 1 on the brows of a mesh. */
function browsOf(points: Float32Array, size: Plane): Plane {
  const out = plane(size.width, size.height);
  for (const brow of [RIGHT_BROW, LEFT_BROW]) fillPolygon(out, convexHull(points, brow));
  return out;
}

/**
 * Returns whether both brows are free of a fringe. The hairs of a brow and those over it look alike, so what surrounds
 * the brow decides.
 * @param visible 1 where the face shows, on the grid of `points`
 */
export function browsFree(visible: Plane, points: Float32Array, faceWidth: number): boolean {
  const shares = [RIGHT_BROW, LEFT_BROW].map((brow) => {
    const shape = plane(visible.width, visible.height);
    const body = brow.filter((index) => !TAILS.includes(index));
    fillPolygon(shape, convexHull(points, body));
    const [inner, outer] = RING.map((width) => grow(shape, width * faceWidth)) as [Plane, Plane];
    let [hidden, all] = [0, 1e-6];
    for (let i = 0; i < shape.data.length; i++) {
      const ring = (outer.data[i] as number) - (inner.data[i] as number);
      hidden += ring * (1 - (visible.data[i] as number));
      all += ring;
    }
    return hidden / all;
  });
  return Math.hypot(...shares) / Math.SQRT2 < UNDER_HAIR;
}

/** Returns how much darker brows are than the skin around them, in levels. @param detail of the brightness */
function darkness(detail: Plane, brows: Plane): number {
  let [sum, count] = [0, 1e-6];
  for (let i = 0; i < brows.data.length; i++) {
    sum -= (brows.data[i] as number) * (detail.data[i] as number);
    count += brows.data[i] as number;
  }
  return Math.max(0, sum / count);
}

/**
 * Returns whether a second face's brows are too faint for a first one, as white ones are below black hair. Then the first
 * face keeps its own.
 * @param details detail of the brightness of both faces
 */
export function browsFaint([own, other]: readonly [Plane, Plane], points: Float32Array): boolean {
  const brows = browsOf(points, own);
  return darkness(other, brows) + 1 < FAINT * (darkness(own, brows) + 1);
}

/**
 * Returns the share in which a second face's brows replace those of a first one, 0–1. Brows that lack detail get
 * hairs from the first face. Unless they are clearly darker than those hairs they would look washed out, so the first
 * face keeps its brows.
 * @param details detail of the brightness of both faces
 * @param blurred how blurred the second face's brows are, 0–1
 */
export function browsTaken(
  [own, other]: readonly [Plane, Plane],
  points: Float32Array,
  blurred: number,
): number {
  if (blurred === 0) return 1;
  const brows = browsOf(points, own);
  const ratio = (darkness(other, brows) + 1) / (darkness(own, brows) + 1);
  return 1 - blurred * (1 - smoothstep(DARKER[0], DARKER[1], ratio));
}
