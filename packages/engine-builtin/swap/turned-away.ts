import { blur, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';
import type { WarpMap } from '@semblance/vision/plane/warp-map';

/** Largest stretch of source pixels, relative to the usual stretch. */
const DRAWN_OUT = 3.5;
/** Width and softness of the margin around a stretched area, as shares of the face width. */
const MARGIN = 0.03;
/** Width over which the stretch is averaged, which removes that of single triangles, as a share of the face width. */
const AROUND = 0.02;

/** Distance of the places of two neighbours, relative to the usual one, beyond which a fold of the face is between them. */
const FOLD = 3;
/** Width beside a fold, and softness, in pixels of the grid. */
const BESIDE_FOLD = 1;
const FOLD_SOFT = 0.7;

/**
 * Returns 1 at folds: where the source hides a part of its face behind its nose. Two neighbours show places far apart
 * there, and all that lies between, such as a nostril, would be drawn as a line.
 * @param direct for each work pixel, the place in the source's patch that belongs there
 * @param usual distance of the places of two neighbours
 */
export function foldsOf({ x, y, covered }: WarpMap, usual: number): Plane {
  const { width, height } = x;
  const out = plane(width, height);
  const most = FOLD * usual;
  const look = (i: number, j: number): void => {
    if (!covered.data[i] || !covered.data[j]) return;
    const [dx, dy] = [
      (x.data[j] as number) - (x.data[i] as number),
      (y.data[j] as number) - (y.data[i] as number),
    ];
    if (dx * dx + dy * dy < most * most) return;
    out.data[i] = 1;
    out.data[j] = 1;
  };
  for (let row = 0, i = 0; row < height; row++) {
    for (let column = 0; column < width; column++, i++) {
      if (column + 1 < width) look(i, i + 1);
      if (row + 1 < height) look(i, i + width);
    }
  }
  return out.data.includes(1) ? blur(grow(out, BESIDE_FOLD), FOLD_SOFT) : out;
}

/**
 * Returns 1 where a few source pixels would be stretched over many target pixels: a side of the face that the
 * source turns away, at whose edge the background shows.
 * @param direct for each work pixel, the place in the source's patch that belongs there
 */
export function turnedAway({ x, y, covered }: WarpMap, faceWidth: number): Plane {
  const { width, height } = x;
  const areas = plane(width, height);
  const known = plane(width, height);
  const all = new Float32Array(width * height);
  let count = 0;
  for (let i = width; i < areas.data.length - width; i++) {
    const [left, right, up, down] = [i - 1, i + 1, i - width, i + width];
    if (!covered.data[left] || !covered.data[right] || !covered.data[up] || !covered.data[down]) continue;
    const across = (of: Plane): number => ((of.data[right] as number) - (of.data[left] as number)) / 2;
    const along = (of: Plane): number => ((of.data[down] as number) - (of.data[up] as number)) / 2;
    known.data[i] = 1;
    areas.data[i] = Math.abs(across(x) * along(y) - along(x) * across(y));
    all[count++] = areas.data[i] as number;
  }
  const usual = select(all.subarray(0, count), count >> 1);
  const mean = blur(areas, AROUND * faceWidth);
  const weight = blur(known, AROUND * faceWidth);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const w = weight.data[i] as number;
    out.data[i] = w > 0.1 && (mean.data[i] as number) / w < usual / DRAWN_OUT ? 1 : 0;
  }
  return blur(grow(out, MARGIN * faceWidth), MARGIN * faceWidth);
}
