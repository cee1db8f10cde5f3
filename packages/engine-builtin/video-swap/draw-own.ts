import {
  LEFT_EYE,
  LEFT_LIDS,
  LIPS_INNER,
  LIPS_OUTER,
  RIGHT_EYE,
  RIGHT_LIDS,
} from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { BundleRow, blur, bundle, fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { drawTriangles, emptyMap, MOUTH_TRIANGLES, type WarpMap } from '@semblance/vision/plane/warp-map';
import { LIP_RINGS } from '../swap/feature-shapes.ts';
import { mouthInside } from '../swap/mouth-inside.ts';
import { flatten } from '../swap/source-face.ts';
import { type Before, sampleBytes, sharpBytes } from './before.ts';
import type { FaceDrawing } from './face-drawing.ts';
import type { Frame } from './frame-part.ts';
import type { FaceTexture } from './texture.ts';
import { ALPHA_STEP } from './texture-data.ts';

/** A part of the face that shows the frame's own pixels. */
interface OwnPart {
  /** Mesh points around it. */
  readonly outline: readonly number[];
  readonly triangles: readonly Uint16Array[];
  /** Largest width of its soft edge beyond the outline, as a share of the face width. */
  readonly margin: number;
  /** Returns the part with its soft edge. @param mask 1 inside the outline */
  readonly softened: (mask: Plane, points: Float32Array, faceWidth: number) => Plane;
}

const MOUTH: OwnPart = {
  outline: LIPS_INNER,
  // The innermost ring alone is thinner than the soft edge.
  triangles: [trianglesAt(LIP_RINGS.slice(1).flat()), MOUTH_TRIANGLES],
  margin: 0.03,
  softened: mouthInside,
};

/** Softness of the edge of lids, as a share of the face width. */
const LIDS_SOFT = 0.018;

const LIDS = [
  [RIGHT_LIDS, RIGHT_EYE],
  [LEFT_LIDS, LEFT_EYE],
].map(
  ([outline, eye]): OwnPart => ({
    outline: outline as readonly number[],
    triangles: [trianglesAt([...(outline as readonly number[]), ...(eye as readonly number[])])],
    margin: 2 * LIDS_SOFT,
    softened: (mask, _points, faceWidth) => blur(mask, LIDS_SOFT * faceWidth),
  }),
);

/** Returns the mesh triangles that touch some points. */
function trianglesAt(points: readonly number[]): Uint16Array {
  const all = Array.from({ length: FACE_TRIANGLES.length / 3 }, (_, t) => [
    ...FACE_TRIANGLES.subarray(t * 3, t * 3 + 3),
  ]);
  return Uint16Array.from(all.filter((corners) => corners.some((corner) => points.includes(corner))).flat());
}

interface OwnLayer {
  readonly frame: Frame;
  readonly before: Before;
  /** Frame pixels per grid pixel. */
  readonly scale: number;
  readonly opacity: number;
}

/** A face drawn on the grid. */
interface Drawn {
  readonly points: Float32Array;
  readonly mixed: Float32Array;
  readonly depth: Float32Array;
  readonly grid: { readonly width: number; readonly height: number };
  readonly faceWidth: number;
}

/**
 * Draws the inside of the mouth from the frame's own pixels (teeth, tongue), moved with the lips. `shown` is the
 * share of it that nothing covers.
 */
export function drawMouth(layer: OwnLayer, drawn: Drawn, shown: number): void {
  drawOwn(layer, drawn, MOUTH, shown);
}

/**
 * Draws eyes with their lids from the frame's own pixels: closing lids, because a face picture with open eyes has none,
 * and eyes that look far aside.
 * @param shares of the right and the left eye that are the frame's own, 0–1
 */
export function drawEyes(layer: OwnLayer, drawn: Drawn, shares: readonly [number, number]): void {
  LIDS.forEach((part, side) => {
    drawOwn(layer, drawn, part, shares[side] as number);
  });
}

function drawOwn(
  { frame, before, scale, opacity }: OwnLayer,
  { points, mixed, depth, grid, faceWidth }: Drawn,
  { outline, triangles, margin: most, softened }: OwnPart,
  shown: number,
): void {
  if (shown <= 0) return;
  const [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity].map((start, k) =>
    outline.reduce((most, index) => {
      const v = mixed[index * 2 + (k % 2)] as number;
      return k < 2 ? Math.min(most, v) : Math.max(most, v);
    }, start),
  ) as [number, number, number, number];
  const margin = 4 + Math.ceil(most * faceWidth);
  const x0 = Math.max(0, Math.floor(left) - margin);
  const y0 = Math.max(0, Math.floor(top) - margin);
  const width = Math.min(grid.width, Math.ceil(right) + margin) - x0;
  const height = Math.min(grid.height, Math.ceil(bottom) + margin) - y0;
  if (width < 2 || height < 2) return;
  const local = mixed.map((v, i) => v - (i % 2 === 0 ? x0 : y0));
  const mask = plane(width, height);
  fillPolygon(
    mask,
    outline.flatMap((index) => [local[index * 2] as number, local[index * 2 + 1] as number]),
  );
  const soft = softened(mask, local, faceWidth);
  const own = emptyMap(width, height);
  const geometry = { to: local, from: flatten(points), depth };
  for (const some of triangles) drawTriangles(own, geometry, some);
  const fields = new BundleRow(bundle([...weighted(own), own.covered, soft]));
  const draw = (
    pixel: number,
    plane: { data: Uint8Array; from: Uint8Array; at: number; stride: number; width: number; height: number },
  ): void => {
    const by = pixel / scale;
    const endY = Math.min(plane.height, Math.ceil((y0 + height) / by));
    const endX = Math.min(plane.width, Math.ceil((x0 + width) / by));
    const values = new Float32Array(4);
    const valueAt = pixel === 1 ? sharpBytes : sampleBytes;
    for (let y = Math.max(0, Math.floor(y0 / by)); y < endY; y++) {
      fields.moveTo((y + 0.5) * by - y0);
      for (let x = Math.max(0, Math.floor(x0 / by)); x < endX; x++) {
        fields.read((x + 0.5) * by - x0, values);
        const known = values[2] as number;
        const share = (values[3] as number) * shown * opacity;
        if (share < 0.004 || known < 0.05) continue;
        const there = valueAt(
          plane.from,
          plane,
          (values[0] as number) / known / by,
          (values[1] as number) / known / by,
        );
        const at = plane.at + y * plane.stride + x;
        const here = plane.data[at] as number;
        const value = here + (there - here) * share + 0.5;
        plane.data[at] = value <= 0 ? 0 : value >= 255 ? 255 : value;
      }
    }
  };
  const { data } = frame;
  const luma = frame.width * frame.height;
  const size = { width: before.width, height: before.height };
  draw(1, {
    data,
    from: before.luma,
    stride: frame.width,
    ...size,
    at: before.y * frame.width + before.x,
  });
  const stride = frame.width >> 1;
  const half = { width: before.width >> 1, height: before.height >> 1 };
  const corner = (before.y >> 1) * stride + (before.x >> 1);
  draw(2, { data, from: before.u, stride, ...half, at: luma + corner });
  draw(2, { data, from: before.v, stride, ...half, at: luma + luma / 4 + corner });
}

/** Returns the share of the lips that the swap shows. Where the mouth is covered, its inside stays too. */
export function mouthShown({ from, to, share }: FaceDrawing): number {
  const mean = ({ alpha, points, size }: FaceTexture): number => {
    const side = Math.ceil(size / ALPHA_STEP);
    const place = (value: number): number => Math.min(side - 1, Math.max(0, Math.round(value / ALPHA_STEP)));
    let sum = 0;
    for (const index of LIPS_OUTER)
      sum += alpha[
        place(points[index * 3 + 1] as number) * side + place(points[index * 3] as number)
      ] as number;
    return sum / LIPS_OUTER.length;
  };
  return mean(from) * (1 - share) + mean(to) * share;
}

/** Converts a map into fields that can be averaged; uncovered pixels weigh nothing. */
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
