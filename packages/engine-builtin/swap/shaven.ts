import { LIPS_OUTER, NOSE_BASE } from '@semblance/vision/face-regions';
import type { RgbImage } from '@semblance/vision/picture';
import { blur, fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { CHEEKS } from './beard.ts';
import { convexHull } from './convex-hull.ts';
import { luma } from './light.ts';

/** Outline of the skin around the mouth: from the right cheek below the nose to the left one and over the chin back. */
const AROUND_MOUTH = [
  206, 98, 97, 2, 326, 327, 426, 436, 432, 422, 424, 418, 421, 200, 201, 194, 204, 202, 212, 216,
] as const;
/** Upper edge of the upper lip, and the line in its middle. */
const UPPER_EDGE = [61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291] as const;
const UPPER_MIDDLE = [76, 184, 74, 73, 72, 11, 302, 303, 304, 408, 306] as const;
/** The edge of the upper lip at the mouth. */
const UPPER_INNER = [78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308] as const;
/** Softness of the edge of shaven skin, as a share of the face width. */
const SOFT = 0.012;

/**
 * Returns 1 where the hair of a beard or a moustache shows around a mouth, as far as a new face could take it along:
 * not on the nostrils, which are as dark.
 * The upper lip belongs to it where a moustache hangs over it.
 * @param points x and y of each mesh point in pixels of the image, stride 2
 */
export function beardArea(image: RgbImage, points: Float32Array, faceWidth: number): Plane {
  const draw = (outline: readonly number[]): Plane => drawn(outline, points, image);
  const out = draw(AROUND_MOUTH);
  const lips = draw(LIPS_OUTER);
  const upper = draw([...UPPER_EDGE, ...UPPER_MIDDLE.toReversed()]);
  const nose = plane(image.width, image.height);
  fillPolygon(nose, convexHull(points, NOSE_BASE));
  const hangsOver = hairHangsOverLip(image, points);
  for (let i = 0; i < out.data.length; i++) {
    const lip = (lips.data[i] as number) * (hangsOver ? 1 - (upper.data[i] as number) : 1);
    out.data[i] = Math.max(out.data[i] as number, hangsOver ? (upper.data[i] as number) : 0) * (1 - lip);
  }
  const soft = blur(out, SOFT * faceWidth);
  const within = blur(nose, SOFT * faceWidth);
  for (let i = 0; i < soft.data.length; i++) {
    const hair = Math.min(1, 2 * (soft.data[i] as number));
    soft.data[i] = hair * Math.min(1, 2 - 2 * (within.data[i] as number));
  }
  return soft;
}

/** Returns whether the hair of a moustache hangs over the upper lip: that half of it is no redder than the cheeks. */
export function hairHangsOverLip(image: RgbImage, points: Float32Array): boolean {
  const upper = drawn([...UPPER_EDGE, ...UPPER_MIDDLE.toReversed()], points, image);
  const cheeks = plane(image.width, image.height);
  for (const cheek of CHEEKS) fillPolygon(cheeks, convexHull(points, cheek));
  return redness(image, upper) < redness(image, cheeks);
}

/** Returns 1 on the whole upper lip, with a soft edge. @param points as of {@link beardArea} */
export function upperLip(
  points: Float32Array,
  size: { readonly width: number; readonly height: number },
  faceWidth: number,
): Plane {
  const lip = drawn([...UPPER_EDGE, ...UPPER_INNER.toReversed()], points, size);
  return blur(grow(lip, SOFT * faceWidth), SOFT * faceWidth);
}

function drawn(
  outline: readonly number[],
  points: Float32Array,
  { width, height }: { readonly width: number; readonly height: number },
): Plane {
  const out = plane(width, height);
  fillPolygon(
    out,
    outline.flatMap((index) => [points[index * 2] as number, points[index * 2 + 1] as number]),
  );
  return out;
}

/** Returns how red an area is, relative to its brightness. */
function redness({ data }: RgbImage, area: Plane): number {
  let [red, level] = [0, 1];
  for (let i = 0; i < area.data.length; i++) {
    if (!area.data[i]) continue;
    const [r, g, b] = [data[i * 3], data[i * 3 + 1], data[i * 3 + 2]] as [number, number, number];
    red += r - g;
    level += luma(r, g, b);
  }
  return red / level;
}
