import type { Face } from '../vision/face-mesh.ts';
import { LEFT_EYE, LIPS_INNER, RIGHT_EYE } from '../vision/face-regions.ts';
import type { Picture } from '../vision/picture.ts';
import { type Expression, ExpressionRig } from './expression.ts';
import { type FaceFrame, faceFrame } from './face-frame.ts';
import { farthestFirst, type HeadShape, NECK } from './head-shape.ts';
import { MouthInside } from './mouth-inside.ts';
import { fitAffine, type Planes, paintOpening, type Shader } from './openings.ts';
import { separate } from './plate.ts';
import {
  type BytePlane,
  drawTexture,
  drawTextures,
  sampleByte,
  scanTriangles,
  type TriangleGeometry,
} from './raster.ts';
import { type Angles, rotationOf } from './rotation.ts';
import { planesOf, rgbToYuv } from './yuv.ts';

/** Where a head is, relative to the still: all zero (and scale 1) is the still itself. */
export interface Pose extends Angles {
  /** Shift of the neck's joint to the right and down, in IOD. */
  readonly dx: number;
  readonly dy: number;
  /** Size of the head; 1 as in the still. */
  readonly scale: number;
  readonly expression: Expression;
}

export const REST: Pose = { roll: 0, yaw: 0, pitch: 0, dx: 0, dy: 0, scale: 1, expression: {} };

/** A still picture of a person, ready to be drawn in any pose. */
export interface Portrait {
  readonly width: number;
  readonly height: number;
  readonly frame: FaceFrame;
  readonly rig: ExpressionRig;
  readonly shape: HeadShape;
  /** The still, 4:2:0. */
  readonly still: Uint8Array;
  readonly box: {
    readonly left: number;
    readonly top: number;
    readonly right: number;
    readonly bottom: number;
  };
  /** The still's size; outside the box as the still. */
  readonly background: Planes;
  readonly alpha: { readonly luma: Uint8Array; readonly chroma: Uint8Array };
  /** Triangles around the face that are seen: wholly opaque ones, and those the edge of the head runs through. */
  readonly surround: { readonly opaque: Uint16Array; readonly soft: Uint16Array };
  readonly mouth: MouthInside;
}

/**
 * Makes a portrait of a picture with a face.
 * @param picture RGB, 8 bits, of even width and height: the size of the frames
 */
export function preparePortrait(picture: Picture, face: Face): Portrait {
  const { width, height, channels, data } = picture;
  if (width % 2 || height % 2 || channels !== 3 || data instanceof Uint16Array) {
    throw new RangeError('a portrait needs an 8-bit RGB picture of even size');
  }
  const frame = faceFrame(face.points);
  const { shape, box, background, alpha } = separate(picture, face.points, frame);
  const still = rgbToYuv(data, width, height);
  const stillPlanes = planesOf(still, width, height);
  const rig = new ExpressionRig(shape);
  const whole = data.slice();
  const luma = new Uint8Array(width * height).fill(255);
  const boxWidth = box.right - box.left;
  for (let y = box.top; y < box.bottom; y++) {
    const row = (y - box.top) * boxWidth;
    whole.set(background.subarray(row * 3, (row + boxWidth) * 3), (y * width + box.left) * 3);
    luma.set(alpha.subarray(row, row + boxWidth), y * width + box.left);
  }
  const chroma = new Uint8Array((width * height) / 4);
  for (let y = 0; y < height; y += 2) {
    for (let x = 0; x < width; x += 2) {
      const i = y * width + x;
      const sum =
        (luma[i] as number) +
        (luma[i + 1] as number) +
        (luma[i + width] as number) +
        (luma[i + width + 1] as number);
      chroma[((y >> 1) * width) / 2 + (x >> 1)] = sum / 4;
    }
  }
  return {
    width,
    height,
    frame,
    rig,
    shape,
    still,
    box,
    background: planesOf(rgbToYuv(whole, width, height), width, height),
    alpha: { luma, chroma },
    surround: sortSurround(shape, { width, height, data: luma }),
    mouth: mouthOf(stillPlanes, shape, rig),
  };
}

/** Leaves out what never moves and what is never seen. */
function sortSurround(shape: HeadShape, alpha: BytePlane): Portrait['surround'] {
  const opaque: number[] = [];
  const soft: number[] = [];
  const { surround, texture, follow } = shape;
  for (let t = 0; t < surround.length; t += 3) {
    const triangles = surround.subarray(t, t + 3);
    if (triangles.every((v) => (follow[v] as number) < 1e-3)) continue;
    let least = 255;
    let most = 0;
    scanTriangles(alpha, { to: texture, from: texture, triangles, scale: 1 }, (y, x0, x1) => {
      // One pixel more on all sides: colours are read between pixels.
      for (let row = Math.max(0, y - 1); row <= Math.min(alpha.height - 1, y + 1); row++) {
        for (let x = Math.max(0, x0 - 1); x < Math.min(alpha.width, x1 + 1); x++) {
          const value = alpha.data[row * alpha.width + x] as number;
          if (value < least) least = value;
          if (value > most) most = value;
        }
      }
    });
    if (most > 0) (least === 255 ? opaque : soft).push(...triangles);
  }
  return { opaque: Uint16Array.from(opaque), soft: Uint16Array.from(soft) };
}

function mouthOf(still: Planes, shape: HeadShape, rig: ExpressionRig): MouthInside {
  const own = xyOf(shape.own, LIPS_INNER);
  const texture = xyOf(shape.rest, LIPS_INNER);
  // The corners' plane stands for the mouth's: teeth lie behind it, lips before.
  const [a, b, c, d, e, f] = fitAffine(own, texture);
  const skin: [number, number, number] = [0, 0, 0];
  const cheeks = [50, 280, 101, 330, 205, 425];
  for (const i of cheeks) {
    const x = shape.texture[i * 2] as number;
    const y = shape.texture[i * 2 + 1] as number;
    skin[0] += sampleByte(still.y, x, y) / cheeks.length;
    skin[1] += sampleByte(still.u, x / 2, y / 2) / cheeks.length;
    skin[2] += sampleByte(still.v, x / 2, y / 2) / cheeks.length;
  }
  return new MouthInside(still, rig.lips, (x, y) => [a * x + b * y + c, d * x + e * y + f], skin);
}

/** x and y of some points of which each has x, y and z. */
function xyOf(points: Float32Array, indices: readonly number[]): Float32Array {
  return Float32Array.from(indices.flatMap((i) => [points[i * 3] as number, points[i * 3 + 1] as number]));
}

/** The same of points with x and y only. */
function pick(points: Float32Array, indices: readonly number[]): Float32Array {
  return Float32Array.from(indices.flatMap((i) => [points[i * 2] as number, points[i * 2 + 1] as number]));
}

/**
 * Draws a portrait in a pose.
 * @param into a frame drawn before of the same portrait, to be drawn over
 * @returns a frame, 4:2:0
 */
export function drawPortrait(portrait: Portrait, pose: Pose, into?: Uint8Array): Uint8Array {
  const { shape, surround, width, height, box, background, alpha } = portrait;
  const out = into ?? portrait.still.slice();
  const planes = planesOf(out, width, height);
  const placed = placeVertices(portrait, pose);
  const still = planesOf(portrait.still, width, height);
  copyBox(planes.y, background.y, box, 1);
  copyBox(planes.u, background.u, box, 2);
  copyBox(planes.v, background.v, box, 2);
  const skin = farthestFirst(shape.skin, placed.depth);
  const layers = [
    { triangles: surround.soft, transparent: true },
    { triangles: surround.opaque, transparent: false },
    { triangles: shape.eyes, transparent: false },
    { triangles: skin, transparent: false },
  ];
  for (const { triangles, transparent } of layers) {
    const geometry: TriangleGeometry = { to: placed.moved, from: shape.texture, triangles, scale: 1 };
    const half = { ...geometry, scale: 0.5 };
    drawTexture(planes.y, still.y, geometry, transparent ? { width, height, data: alpha.luma } : undefined);
    const coarse = transparent ? { width: width / 2, height: height / 2, data: alpha.chroma } : undefined;
    drawTextures([planes.u, planes.v], [still.u, still.v], half, coarse);
  }
  paintEyes(planes, still, portrait, placed, pose.expression);
  paintMouth(planes, still, portrait, placed, pose.expression);
  return out;
}

interface Placed {
  /** Places of the vertices on the frame with and without the expression, x and y in turn. */
  readonly moved: Float32Array;
  readonly turned: Float32Array;
  readonly depth: Float32Array;
  readonly jaw: number;
}

function placeVertices(portrait: Portrait, pose: Pose): Placed {
  const { shape, frame, rig } = portrait;
  const { axes, origin, iod } = frame;
  const count = shape.follow.length;
  const offsets = new Float32Array(count * 2);
  const jaw = rig.apply(pose.expression, offsets);
  const r = rotationOf(pose);
  const at = (m: Float64Array, i: number): number => m[i] as number;
  const pivot = [0, 1, 2].map(
    (k) =>
      (origin[k] as number) +
      iod * (at(axes, k * 3) * NECK[0] + at(axes, k * 3 + 1) * NECK[1] + at(axes, k * 3 + 2) * NECK[2]),
  ) as [number, number, number];
  const moved = new Float32Array(count * 2);
  const turned = new Float32Array(count * 2);
  const depth = new Float32Array(count);
  const shiftX = pivot[0] + pose.dx * iod;
  const shiftY = pivot[1] + pose.dy * iod;
  for (let v = 0; v < count; v++) {
    const x = shape.rest[v * 3] as number;
    const y = shape.rest[v * 3 + 1] as number;
    const z = shape.rest[v * 3 + 2] as number;
    const ox = (offsets[v * 2] as number) * iod;
    const oy = (offsets[v * 2 + 1] as number) * iod;
    const ex = at(axes, 0) * ox + at(axes, 1) * oy;
    const ey = at(axes, 3) * ox + at(axes, 4) * oy;
    const ez = at(axes, 6) * ox + at(axes, 7) * oy;
    const px = x - pivot[0];
    const py = y - pivot[1];
    const pz = z - pivot[2];
    const w = shape.follow[v] as number;
    const tx = shiftX + pose.scale * (at(r, 0) * px + at(r, 1) * py + at(r, 2) * pz);
    const ty = shiftY + pose.scale * (at(r, 3) * px + at(r, 4) * py + at(r, 5) * pz);
    const dx = pose.scale * (at(r, 0) * ex + at(r, 1) * ey + at(r, 2) * ez);
    const dy = pose.scale * (at(r, 3) * ex + at(r, 4) * ey + at(r, 5) * ez);
    turned[v * 2] = x + (tx - x) * w;
    turned[v * 2 + 1] = y + (ty - y) * w;
    moved[v * 2] = x + (tx + dx - x) * w;
    moved[v * 2 + 1] = y + (ty + dy - y) * w;
    depth[v] = at(r, 6) * px + at(r, 7) * py + at(r, 8) * pz;
  }
  return { moved, turned, depth, jaw };
}

function copyBox(to: Planes['y'], from: Planes['y'], box: Portrait['box'], per: number): void {
  for (let y = box.top / per; y < box.bottom / per; y++) {
    const row = y * to.width;
    to.data.set(from.data.subarray(row + box.left / per, row + box.right / per), row + box.left / per);
  }
}

/** A lid closes over the eyeball: what is seen between the lids does not shrink with their opening. */
function paintEyes(
  planes: Planes,
  still: Planes,
  { shape }: Portrait,
  { moved, turned }: Placed,
  { eyes }: Expression,
): void {
  if (!eyes) return;
  [RIGHT_EYE, LEFT_EYE].forEach((points, side) => {
    if ((eyes[side] as number) > 0.97) return;
    paintOpening(planes, pick(moved, points), stillShader(still, turned, shape, points));
  });
}

function paintMouth(
  planes: Planes,
  still: Planes,
  { shape, rig, mouth }: Portrait,
  { moved, turned, jaw }: Placed,
  { lips }: Expression,
): void {
  if (!lips) {
    // Unmoved lips show what the still shows.
    paintOpening(planes, pick(moved, LIPS_INNER), stillShader(still, turned, shape, LIPS_INNER));
    return;
  }
  const now = rig.lips.slice();
  for (let i = 0; i < now.length; i++) now[i] = (now[i] as number) + (lips[i] as number);
  const [a, b, c, d, e, f] = fitAffine(pick(turned, LIPS_INNER), xyOf(shape.own, LIPS_INNER));
  const shade = mouth.shader(now, jaw, (x, y) => [a * x + b * y + c, d * x + e * y + f]);
  paintOpening(planes, pick(moved, LIPS_INNER), shade);
}

/** The still as it would be seen around some points if they had not moved but with the head. */
function stillShader(
  still: Planes,
  turned: Float32Array,
  { rest }: HeadShape,
  points: readonly number[],
): Shader {
  const [a, b, c, d, e, f] = fitAffine(pick(turned, points), xyOf(rest, points));
  return (x, y, out) => {
    const tx = a * x + b * y + c;
    const ty = d * x + e * y + f;
    out[0] = sampleByte(still.y, tx, ty);
    out[1] = sampleByte(still.u, tx / 2, ty / 2);
    out[2] = sampleByte(still.v, tx / 2, ty / 2);
  };
}
