import type { VideoFrame } from '@semblance/media/types';
import type { Face } from '@semblance/vision/face-mesh';
import { smoothstep } from '@semblance/vision/plane/plane';
import { type FaceFrame, faceFrame, toFaceFrame } from '../animate/face-frame.ts';
import { fitAffine, type Planes, paintOpening } from '../animate/openings.ts';
import { drawTexture } from '../animate/raster.ts';
import type { TriangleGeometry } from '../animate/triangle-spans.ts';
import { planesOf } from '../animate/yuv.ts';
import { movedTriangles, moveFace, VERTICES, withNeck } from './face-warp.ts';
import { mouthInside } from './inside.ts';
import { LIP_RINGS, RING_COUNT, RING_POINTS, RING_SIZE, ringsOf } from './lip-rings.ts';
import { type MouthCommand, shapeMouth } from './mouth-shape.ts';
import { closeLips, gapsOf, JAW_SHARE, type MouthMemory } from './rest-mouth.ts';

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Motion, in pixels, below which a vertex stays. */
const LEAST_MOVE = 0.02;
/**
 * Precision of the inner edges of an open mouth, as a share of the lip's thickness and in pixels. The lip is taken
 * narrower by this, because the frame's own teeth would move along with it.
 */
const RIM = 0.14;
const RIM_PIXELS = 1.2;
const MAX_RIM = 0.45;
/** Opening below which lips touch, in IOD. */
const LEAST_GAP = 0.006;
/** Share of a chin's motion that the mesh follows. */
const CHIN_SEEN = 0.85;
const CHEEKS = [50, 280, 101, 330, 205, 425] as const;
/** Width of the line that is drawn where lips meet that did not touch in the frame, in IOD. */
const SEAM = 0.014;

/** Memory for the frame's own pixels, kept between frames. */
let scratch = new Uint8Array(0);

/**
 * Gives the face of a frame another mouth: lips, inside of the mouth, chin and the skin between follow the command,
 * whatever they did in the frame. All other pixels keep their bytes.
 * @param frame changed in place
 * @param memory of this face; @param seconds since the frame before
 * @returns the part of the frame in which pixels may have changed
 */
export function renderMouth(
  frame: Pick<VideoFrame, 'width' | 'height' | 'data'>,
  face: Face,
  command: MouthCommand,
  memory: MouthMemory,
  seconds: number,
): Rect {
  const { width, height } = frame;
  const target = planesOf(frame.data, width, height);
  const axes = faceFrame(face.points);
  const own = withNeck(toFaceFrame(axes, face.points));
  const seen = ringsOf(own);
  const gaps = gapsOf(seen);
  const gap = gaps[4] as number;
  const chin = own[152 * 3 + 1] as number;
  const rest = memory.learn(
    { lips: closeLips(seen, gaps), chin: chin - JAW_SHARE * gap, skin: cheeks(target, face) },
    seconds,
  );
  const openness = command.closed ? 0 : Math.max(0, command.openness);
  const lips = shapeMouth(rest.lips, command);
  const moves = moveFace(own, lips, (rest.chin - chin) / CHIN_SEEN + JAW_SHARE * openness);
  const triangles = movedTriangles(moves, LEAST_MOVE / axes.iod);
  const from = texturePlaces(axes, own, gap);
  const to = place(axes, own, moves);
  const source = planesOf(ownPixels(frame, from, triangles), width, height);
  paintUnder(target, source, from, to, gap);
  const geometry: TriangleGeometry = { to, from, triangles, scale: 1 };
  drawTexture(target.y, source.y, geometry);
  const half = { ...geometry, scale: 0.5 };
  drawTexture(target.u, source.u, half);
  drawTexture(target.v, source.v, half);
  paintInside(target, { axes, to, lips, rest: rest.lips, skin: rest.skin, openness, gap });
  return bounds(to, triangles, width, height);
}

/** Copies the frame's own pixels that the triangles read into memory that is kept between frames. */
function ownPixels(
  { width, height, data }: Pick<VideoFrame, 'width' | 'height' | 'data'>,
  from: Float32Array,
  triangles: Uint16Array,
): Uint8Array {
  if (scratch.length !== data.length) scratch = new Uint8Array(data.length);
  let [top, bottom] = [height, 0];
  for (const v of triangles) {
    const y = from[v * 2 + 1] as number;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  // Two more rows, for interpolation, also in the coarser chroma.
  const first = Math.max(0, Math.floor(top / 2) - 1);
  const last = Math.min(height / 2, Math.ceil(bottom / 2) + 2);
  if (last <= first) return scratch;
  const luma = width * height;
  const copy = (start: number, stride: number): void => {
    const [begin, end] = [start + first * stride, start + last * stride];
    scratch.set(data.subarray(begin, end), begin);
  };
  copy(0, 2 * width);
  copy(luma, width / 2);
  copy(luma + luma / 4, width / 2);
  return scratch;
}

/** Returns the pixel positions of all vertices, moved or not. */
function place(axes: FaceFrame, own: Float32Array, moves?: Float32Array): Float32Array {
  const out = new Float32Array(VERTICES * 2);
  const { axes: m, origin, iod } = axes;
  for (let v = 0; v < VERTICES; v++) {
    const x = (own[v * 3] as number) + (moves?.[v * 2] ?? 0);
    const y = (own[v * 3 + 1] as number) + (moves?.[v * 2 + 1] ?? 0);
    const z = own[v * 3 + 2] as number;
    out[v * 2] = origin[0] + iod * (x * (m[0] as number) + y * (m[1] as number) + z * (m[2] as number));
    out[v * 2 + 1] = origin[1] + iod * (x * (m[3] as number) + y * (m[4] as number) + z * (m[5] as number));
  }
  return out;
}

/**
 * Covers the frame's own mouth with the colour of its lips. Between triangles that face away, and at pixels that an
 * edge only touches, the frame's own teeth would be visible.
 */
function paintUnder(target: Planes, source: Planes, from: Float32Array, to: Float32Array, gap: number): void {
  if (gap < LEAST_GAP) return;
  const ring = LIP_RINGS[1] as readonly number[];
  const lower = ring.slice(2, 9).map((v) => [from[v * 2] as number, from[v * 2 + 1] as number] as const);
  const lips = meanColour(source, lower, 0);
  const outline = Float32Array.from(ring.flatMap((v) => [to[v * 2] as number, to[v * 2 + 1] as number]));
  paintOpening(target, outline, (_x, _y, out) => out.set(lips));
}

/** Returns where each vertex takes its pixels from the frame; lips of an open mouth without their innermost edge. */
function texturePlaces(axes: FaceFrame, own: Float32Array, gap: number): Float32Array {
  const out = place(axes, own);
  const openness = smoothstep(0.015, 0.05, gap);
  const [innermost, next] = [LIP_RINGS[RING_COUNT - 1], LIP_RINGS[RING_COUNT - 2]] as [
    readonly number[],
    readonly number[],
  ];
  const outer = LIP_RINGS[0] as readonly number[];
  for (let i = 0; i < RING_SIZE; i++) {
    if (i % 10 === 0) continue;
    const [a, b] = [innermost[i] as number, outer[i] as number].map((v) => v * 2) as [number, number];
    const thick = Math.hypot(
      (out[a] as number) - (out[b] as number),
      (out[a + 1] as number) - (out[b + 1] as number),
    );
    const rim = openness * Math.min(MAX_RIM, RIM + RIM_PIXELS / Math.max(1, thick));
    for (const [ring, share] of [
      [innermost, rim],
      [next, rim * 0.5],
    ] as const) {
      const v = ring[i] as number;
      const o = outer[i] as number;
      for (const k of [0, 1]) {
        const at = out[v * 2 + k] as number;
        out[v * 2 + k] = at + share * ((out[o * 2 + k] as number) - at);
      }
    }
  }
  return out;
}

interface Inside {
  readonly axes: FaceFrame;
  readonly to: Float32Array;
  readonly lips: Float32Array;
  readonly rest: Float32Array;
  readonly skin: readonly [number, number, number];
  readonly openness: number;
  /** Opening of the frame's own mouth. */
  readonly gap: number;
}

/** Paints the content between the lips. */
function paintInside(target: Planes, inside: Inside): void {
  const { axes, to, lips, rest, skin, openness, gap } = inside;
  // Lips that were apart in the frame have no line between them, so it is drawn when they meet.
  const seam = SEAM * smoothstep(LEAST_GAP, 0.02, gap);
  if (openness < 0.004 && seam < 0.002) return;
  const missing = Math.max(0, Math.max(seam, (seam / SEAM) * (1.2 / axes.iod)) - openness) / 2;
  const [downX, downY] = [axes.iod * (axes.axes[1] as number), axes.iod * (axes.axes[4] as number)];
  const outline = new Float32Array(RING_SIZE * 2);
  const inner = LIP_RINGS[RING_COUNT - 1] as readonly number[];
  inner.forEach((v, i) => {
    const t = (i % 10) / 10;
    const other = inner[(RING_SIZE - i) % RING_SIZE] as number;
    const [x, y] = [to[v * 2] as number, to[v * 2 + 1] as number];
    const [dx, dy] = [(to[other * 2] as number) - x, (to[other * 2 + 1] as number) - y];
    const down = i < 10 ? 1 : -1;
    // Distance to the other lip down the face, as a share of the IOD, and the remaining distance across.
    const way = (dx * downX + dy * downY) / Math.max(1e-6, downX ** 2 + downY ** 2);
    const offset = -down * way;
    // Meeting points of lips are moved onto each other, because the outline would cross itself otherwise.
    const meet = 0.5 * (1 - smoothstep(1 / axes.iod, 4 / axes.iod, offset));
    // Pressed lips overlap by some pixels, so the line must not run along the hidden edge only.
    const widen =
      down * (missing * Math.sqrt(4 * t * (1 - t)) + Math.min(1 / axes.iod, Math.max(0, -offset)));
    outline[i * 2] = x + meet * (dx - way * downX) + widen * downX;
    outline[i * 2 + 1] = y + meet * (dy - way * downY) + widen * downY;
  });
  const pixels = new Float32Array(RING_POINTS.length * 2);
  RING_POINTS.forEach((v, i) => {
    pixels[i * 2] = to[v * 2] as number;
    pixels[i * 2 + 1] = to[v * 2 + 1] as number;
  });
  const [a, b, c, d, e, f] = fitAffine(pixels, lips);
  const { iod } = axes;
  const shade = mouthInside(
    { lips, rest, skin, teethLuma: undefined, black: 16, pixel: 1 / iod },
    (x, y, out) => {
      out[0] = a * x + b * y + c;
      out[1] = d * x + e * y + f;
    },
  );
  paintOpening(target, outline, shade);
}

/** Returns the mean colour of small patches on the cheeks. */
function cheeks(planes: Planes, { points }: Face): [number, number, number] {
  const places = CHEEKS.map((i) => [points[i * 3] as number, points[i * 3 + 1] as number] as const);
  return meanColour(planes, places, 1);
}

/** @param reach chroma samples to each side of each place */
function meanColour(
  { y, u, v }: Planes,
  places: readonly (readonly [number, number])[],
  reach: number,
): [number, number, number] {
  const sums: [number, number, number] = [0, 0, 0];
  for (const place of places) {
    const [column, row] = place.map((at) => Math.floor(at / 2)) as [number, number];
    for (let dy = -reach; dy <= reach; dy++) {
      for (let dx = -reach; dx <= reach; dx++) {
        const cx = Math.min(u.width - 1, Math.max(0, column + dx));
        const cy = Math.min(u.height - 1, Math.max(0, row + dy));
        sums[0] += y.data[2 * cy * y.width + 2 * cx] as number;
        sums[1] += u.data[cy * u.width + cx] as number;
        sums[2] += v.data[cy * v.width + cx] as number;
      }
    }
  }
  const count = places.length * (2 * reach + 1) ** 2;
  return [sums[0] / count, sums[1] / count, sums[2] / count];
}

function bounds(to: Float32Array, triangles: Uint16Array, width: number, height: number): Rect {
  let [left, top, right, bottom] = [width, height, 0, 0];
  const take = (v: number): void => {
    left = Math.min(left, to[v * 2] as number);
    right = Math.max(right, to[v * 2] as number);
    top = Math.min(top, to[v * 2 + 1] as number);
    bottom = Math.max(bottom, to[v * 2 + 1] as number);
  };
  for (const v of triangles) take(v);
  for (const v of RING_POINTS) take(v);
  // A chroma sample covers two pixels in each direction.
  const x = Math.max(0, (Math.floor(left) & ~1) - 2);
  const y = Math.max(0, (Math.floor(top) & ~1) - 2);
  const toX = Math.min(width, (Math.ceil(right) + 3) & ~1);
  const toY = Math.min(height, (Math.ceil(bottom) + 3) & ~1);
  return { x, y, width: Math.max(0, toX - x), height: Math.max(0, toY - y) };
}
