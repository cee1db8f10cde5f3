import { EYES, type Gaze } from '@semblance/vision/gaze';
import { plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';

/** Largest shift of an iris, as a share of the distance of the eye's corners. */
const MOST = 0.11;
/** Half width around the middle of an iris that moves as a whole, in the same unit. */
const IRIS = 0.2;
/** Width in which the shift fades beside it: at least so much, and so much of the shift, so that nothing folds. */
const FADE = 0.1;
const UNFOLDED = 1.8;
/** Distance beyond the lids at which the shift has faded. */
const LIDS = 0.15;

/** Returns how far irises must move to the right so that `from` looks where `to` looks, as a share of the eye's width. */
export function gazeShift(from: Gaze, to: Gaze): number {
  return Math.min(MOST, Math.max(-MOST, (to.aside - from.aside) * from.sure * to.sure));
}

/**
 * Moves both irises of a face in a map, between the corners of its eyes. White of the eye is stretched on one side and
 * pressed together on the other.
 * @param points x and y of each mesh point in pixels of the map, stride 2
 * @param shift of {@link gazeShift}
 * @param aside where the irises shall lie, see {@link Gaze}
 */
export function turnEyes(map: WarpMap, points: Float32Array, shift: number, aside: number): void {
  if (Math.abs(shift) < 0.002) return;
  for (const eye of EYES) turnEye(map, points, eye, { shift, aside });
}

function turnEye(
  map: WarpMap,
  points: Float32Array,
  { outline, corners }: (typeof EYES)[number],
  { shift, aside }: { readonly shift: number; readonly aside: number },
): void {
  const [a, b] = corners.map((index) => [points[index * 2] as number, points[index * 2 + 1] as number]) as [
    [number, number],
    [number, number],
  ];
  const width = Math.hypot(b[0] - a[0], b[1] - a[1]);
  if (width < 2) return;
  const [ux, uy] = [(b[0] - a[0]) / width, (b[1] - a[1]) / width];
  const [mx, my] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  let [upper, lower] = [0, 0];
  for (const index of outline) {
    const [dx, dy] = [(points[index * 2] as number) - mx, (points[index * 2 + 1] as number) - my];
    const v = (dy * ux - dx * uy) / width;
    [upper, lower] = [Math.min(upper, v), Math.max(lower, v)];
  }
  const fade = Math.max(FADE, UNFOLDED * Math.abs(shift));
  const reach = width * (0.5 + IRIS + fade);
  const x0 = Math.max(0, Math.floor(mx - reach));
  const y0 = Math.max(0, Math.floor(my - reach));
  const x1 = Math.min(map.x.width, Math.ceil(mx + reach));
  const y1 = Math.min(map.x.height, Math.ceil(my + reach));
  if (x1 <= x0 || y1 <= y0) return;
  const before = [map.x, map.y].map((from) => part(from.data, map.x.width, [x0, y0, x1, y1]));
  for (let y = y0; y < y1; y++) {
    for (let x = x0; x < x1; x++) {
      const [dx, dy] = [x + 0.5 - mx, y + 0.5 - my];
      const u = (dx * ux + dy * uy) / width;
      const v = (dy * ux - dx * uy) / width;
      const beside = Math.abs(u - aside) - IRIS;
      const beyond = Math.max(upper - v, v - lower);
      const by = shift * width * (1 - smoothstep(0, fade, beside)) * (1 - smoothstep(0, LIDS, beyond));
      const i = y * map.x.width + x;
      if (by === 0 || !map.covered.data[i]) continue;
      const [fromX, fromY] = [x + 0.5 - by * ux, y + 0.5 - by * uy];
      const [cx, cy] = [Math.floor(fromX), Math.floor(fromY)];
      if (cx < 1 || cy < 1 || cx + 1 >= map.x.width || cy + 1 >= map.x.height) continue;
      if (!map.covered.data[cy * map.x.width + cx]) continue;
      map.x.data[i] = sample(before[0] as ReturnType<typeof part>, fromX - x0, fromY - y0);
      map.y.data[i] = sample(before[1] as ReturnType<typeof part>, fromX - x0, fromY - y0);
    }
  }
}

function part(
  data: Float32Array,
  stride: number,
  [x0, y0, x1, y1]: readonly [number, number, number, number],
) {
  const out = plane(x1 - x0, y1 - y0);
  for (let y = y0; y < y1; y++)
    out.data.set(data.subarray(y * stride + x0, y * stride + x1), (y - y0) * out.width);
  return out;
}
