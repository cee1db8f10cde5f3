import { BundleRow, blur, bundle, fillPolygon, type Plane, plane } from '../swap/plane.ts';
import { flatten } from '../swap/source-face.ts';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES, type WarpMap } from '../swap/warp-map.ts';
import { LIPS_INNER, LIPS_OUTER } from '../vision/face-regions.ts';
import { FACE_TRIANGLES } from '../vision/face-topology.ts';
import type { Before } from './before.ts';
import type { FaceDrawing } from './draw.ts';
import type { Frame } from './frame-part.ts';
import type { FaceTexture } from './texture.ts';

/** Triangles that touch the mouth's opening. */
const LIP_TRIANGLES = Uint16Array.from(
  Array.from({ length: FACE_TRIANGLES.length / 3 }, (_, t) => [...FACE_TRIANGLES.subarray(t * 3, t * 3 + 3)])
    .filter((corners) => corners.some((corner) => (LIPS_INNER as readonly number[]).includes(corner)))
    .flat(),
);

interface MouthLayer {
  readonly frame: Frame;
  readonly before: Before;
  /** Pixels of the frame per pixel of the grid. */
  readonly scale: number;
  readonly opacity: number;
}

/**
 * The inside of the mouth is the frame's own (teeth, tongue), moved along with the lips. `shown` says how much of it
 * nothing covers.
 */
export function drawMouth(
  { frame, before, scale, opacity }: MouthLayer,
  shape: {
    points: Float32Array;
    mixed: Float32Array;
    depth: Float32Array;
    grid: { width: number; height: number };
    faceWidth: number;
    shown: number;
  },
): void {
  const { mixed, depth, grid, faceWidth, shown } = shape;
  const [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity].map((start, k) =>
    LIPS_INNER.reduce((most, index) => {
      const v = mixed[index * 2 + (k % 2)] as number;
      return k < 2 ? Math.min(most, v) : Math.max(most, v);
    }, start),
  ) as [number, number, number, number];
  const margin = 4;
  const x0 = Math.max(0, Math.floor(left) - margin);
  const y0 = Math.max(0, Math.floor(top) - margin);
  const width = Math.min(grid.width, Math.ceil(right) + margin) - x0;
  const height = Math.min(grid.height, Math.ceil(bottom) + margin) - y0;
  if (width < 2 || height < 2 || shown <= 0) return;
  const local = mixed.map((v, i) => v - (i % 2 === 0 ? x0 : y0));
  const mask = plane(width, height);
  fillPolygon(
    mask,
    LIPS_INNER.flatMap((index) => [local[index * 2] as number, local[index * 2 + 1] as number]),
  );
  const soft = blur(mask, 0.008 * faceWidth);
  const own = emptyMap(width, height);
  const geometry = { to: local, from: flatten(shape.points), depth };
  drawTriangles(own, geometry, LIP_TRIANGLES);
  drawTriangles(own, geometry, MOUTH_TRIANGLES);
  const fields = new BundleRow(bundle([...weighted(own), own.covered, soft]));
  const draw = (
    pixel: number,
    plane: { data: Uint8Array; from: Uint8Array; at: number; stride: number; width: number; height: number },
  ): void => {
    const by = pixel / scale;
    const endY = Math.min(plane.height, Math.ceil((y0 + height) / by));
    const endX = Math.min(plane.width, Math.ceil((x0 + width) / by));
    const values = new Float32Array(4);
    for (let y = Math.max(0, Math.floor(y0 / by)); y < endY; y++) {
      fields.moveTo((y + 0.5) * by - y0);
      for (let x = Math.max(0, Math.floor(x0 / by)); x < endX; x++) {
        fields.read((x + 0.5) * by - x0, values);
        const known = values[2] as number;
        const share = (values[3] as number) * shown * opacity;
        if (share < 0.004 || known < 0.05) continue;
        const there = between(
          plane.from,
          plane,
          (values[0] as number) / known / by,
          (values[1] as number) / known / by,
        );
        const at = plane.at + y * plane.stride + x;
        const here = plane.data[at] as number;
        plane.data[at] = here + (there - here) * share + 0.5;
      }
    }
  };
  const { data } = frame;
  const luma = frame.width * frame.height;
  const size = { width: before.width, height: before.height };
  draw(1, {
    ...{ data, from: before.luma, stride: frame.width, ...size },
    at: before.y * frame.width + before.x,
  });
  const stride = frame.width >> 1;
  const half = { width: before.width >> 1, height: before.height >> 1 };
  const corner = (before.y >> 1) * stride + (before.x >> 1);
  draw(2, { data, from: before.u, stride, ...half, at: luma + corner });
  draw(2, { data, from: before.v, stride, ...half, at: luma + luma / 4 + corner });
}

/** How much of the lips the swap shows: of a covered mouth, the inside stays as it is too. */
export function mouthShown({ from, to, share }: FaceDrawing): number {
  const mean = ({ luma, points, size }: FaceTexture): number => {
    let sum = 0;
    for (const index of LIPS_OUTER) {
      const x = Math.min(size - 1, Math.max(0, Math.floor(points[index * 3] as number)));
      const y = Math.min(size - 1, Math.max(0, Math.floor(points[index * 3 + 1] as number)));
      sum += (luma[y * size + x] as number) >> 16;
    }
    return sum / LIPS_OUTER.length / 255;
  };
  return mean(from) * (1 - share) + mean(to) * share;
}

/** A map as fields that may be averaged: pixels that it does not cover weigh nothing. */
function weighted(map: WarpMap): [Plane, Plane] {
  const { width, height } = map.x;
  const x = plane(width, height);
  const y = plane(width, height);
  for (let i = 0; i < x.data.length; i++) {
    const known = map.covered.data[i] as number;
    x.data[i] = (map.x.data[i] as number) * known;
    y.data[i] = (map.y.data[i] as number) * known;
  }
  return [x, y];
}

function between(
  data: Uint8Array,
  { width, height }: { width: number; height: number },
  x: number,
  y: number,
): number {
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const u = px - x0;
  const v = py - y0;
  const a = y0 * width + x0;
  const right = x0 + 1 < width ? 1 : 0;
  const down = y0 + 1 < height ? width : 0;
  const top = (data[a] as number) * (1 - u) + (data[a + right] as number) * u;
  const bottom = (data[a + down] as number) * (1 - u) + (data[a + down + right] as number) * u;
  return top * (1 - v) + bottom * v;
}
