import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES, type WarpMap } from '@semblance/vision/plane/warp-map';
import { flatten, type SourceFace } from '../swap/source-face.ts';
import type { SwapPlan } from '../swap/swap-plan.ts';

/** Places of a texture's coarse pixels on the work grid. */
interface TexturePlaces {
  readonly mesh: WarpMap;
  /** Between the lips, which the mesh omits. */
  readonly mouth: WarpMap;
}

/** Returns for the pixels of the source's coarse patch their places on the work grid. */
export function placesOf(plan: SwapPlan, source: SourceFace): TexturePlaces {
  const { coarse, visibleScale, points } = source;
  const mesh = emptyMap(coarse.width, coarse.height);
  const mouth = emptyMap(coarse.width, coarse.height);
  const to = flatten(points).map((v) => v * visibleScale);
  const depth = Float32Array.from({ length: points.length / 3 }, (_, i) => points[i * 3 + 2] as number);
  const front = (at: Float32Array, t: number): boolean => {
    const corner = (k: number, axis: number): number =>
      at[(FACE_TRIANGLES[t + k] as number) * 2 + axis] as number;
    return (
      (corner(1, 0) - corner(0, 0)) * (corner(2, 1) - corner(0, 1)) -
        (corner(1, 1) - corner(0, 1)) * (corner(2, 0) - corner(0, 0)) <
      -1e-6
    );
  };
  const seen: number[] = [];
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    // A triangle seen from behind would take the look of what is in front of it.
    if (!front(plan.mixed, t) || !front(to, t)) continue;
    seen.push(...FACE_TRIANGLES.subarray(t, t + 3));
  }
  const geometry = { to, from: plan.mixed, depth };
  drawTriangles(mesh, geometry, Uint16Array.from(seen));
  drawTriangles(mouth, geometry, MOUTH_TRIANGLES);
  return { mesh, mouth };
}

const place = { x: 0, y: 0 };

/** Interpolates a map; returns undefined where it has no value. The returned object is reused. */
export function placeOf(map: WarpMap, x: number, y: number): typeof place | undefined {
  const { width, height } = map.x;
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const u = px - x0;
  const v = py - y0;
  const a = y0 * width + x0;
  const b = x0 + 1 < width ? a + 1 : a;
  const down = y0 + 1 < height ? width : 0;
  const known = map.covered.data;
  const wa = (1 - u) * (1 - v) * (known[a] as number);
  const wb = u * (1 - v) * (known[b] as number);
  const wc = (1 - u) * v * (known[a + down] as number);
  const wd = u * v * (known[b + down] as number);
  const total = wa + wb + wc + wd;
  if (total < 0.01) return undefined;
  const between = (data: Float32Array): number =>
    (wa * (data[a] as number) +
      wb * (data[b] as number) +
      wc * (data[a + down] as number) +
      wd * (data[b + down] as number)) /
    total;
  place.x = between(map.x.data);
  place.y = between(map.y.data);
  return place;
}
