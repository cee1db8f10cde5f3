import { blur, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';
import type { WarpMap } from '@semblance/vision/plane/warp-map';

/** Largest stretch of source pixels, relative to the usual stretch. */
const DRAWN_OUT = 3.5;
/** Width and softness of the margin around a stretched area, as shares of the face width. */
const MARGIN = 0.03;
/** Width over which the stretch is averaged, which removes that of single triangles, as a share of the face width. */
const AROUND = 0.02;

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
