import { LEFT_EYE, LIPS_INNER, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import { MOUTH_TRIANGLES } from '@semblance/vision/plane/warp-map';
import { paintBackground, wayOf } from './background.ts';
import { type Covered, shownPose } from './covered.ts';
import { type Expression, ExpressionRig } from './expression.ts';
import type { FaceFrame } from './face-frame.ts';
import { farthestFirst, type HeadShape, NECK } from './head-shape.ts';
import { mouthColours } from './mouth-colours.ts';
import { MouthInside } from './mouth-inside.ts';
import { fitAffine, type Planes, paintOpening, type Shader } from './openings.ts';
import { type BytePlane, drawTexture, drawTextures, sampleByte, sharpByte } from './raster.ts';
import { type Angles, rotationOf } from './rotation.ts';
import { type FaceEdges, faceEdges, smoothSilhouette } from './silhouette.ts';
import type { TriangleGeometry } from './triangle-spans.ts';
import { planesOf } from './yuv.ts';

/** Position of a head relative to the still; all zero (and scale 1) is the still itself. */
export interface Pose extends Angles {
  /** Shift of the neck's joint to the right and down, in IOD. */
  readonly dx: number;
  readonly dy: number;
  /** Size of the head; 1 as in the still. */
  readonly scale: number;
  readonly expression: Expression;
  /** Rise of the shoulders, as of a breath, in IOD. */
  readonly breath?: number;
}

export const REST: Pose = { roll: 0, yaw: 0, pitch: 0, dx: 0, dy: 0, scale: 1, expression: {} };

/**
 * Points of the plane of the mouth. The inner edges of closed lips lie on one line, which does not define a plane.
 */
const MOUTH_PLANE = [...LIPS_INNER, ...LIPS_OUTER];

/** Everything known about a portrait, as plain data. */
export interface PortraitData {
  readonly width: number;
  readonly height: number;
  readonly frame: FaceFrame;
  readonly shape: HeadShape;
  /** The still, 4:2:0. */
  readonly still: Uint8Array;
  readonly box: {
    readonly left: number;
    readonly top: number;
    readonly right: number;
    readonly bottom: number;
  };
  /** Size of the still; outside the box equal to the still. */
  readonly background: Planes;
  readonly alpha: { readonly luma: Uint8Array; readonly chroma: Uint8Array };
  /** What something in front of the face covers; it moves with the head and has no expression. */
  readonly covered?: Covered;
  /** Visible triangles around the face: completely opaque ones, and those with the edge of the head. */
  readonly surround: { readonly opaque: Uint16Array; readonly soft: Uint16Array };
}

/** A still picture of a person, ready to be drawn in any pose. */
export interface Portrait extends PortraitData {
  readonly rig: ExpressionRig;
  readonly mouth: MouthInside;
  readonly edges: FaceEdges;
}

/** Completes plain data, as a thread receives it. */
export function withRig(data: PortraitData): Portrait {
  const rig = new ExpressionRig(data.shape);
  const still = planesOf(data.still, data.width, data.height);
  const { shape, surround } = data;
  const edges = faceEdges(shape.skin, [surround.opaque, surround.soft]);
  return { ...data, rig, edges, mouth: mouthOf(still, data, rig) };
}

/** The inverse of {@link withRig}. */
export function portraitData({ rig: _r, mouth: _m, edges: _e, ...data }: Portrait): PortraitData {
  return data;
}

function mouthOf(still: Planes, { shape, frame: { iod } }: PortraitData, rig: ExpressionRig): MouthInside {
  const own = xyOf(shape.own, MOUTH_PLANE);
  const texture = xyOf(shape.rest, MOUTH_PLANE);
  // The plane of the lips stands for the mouth: teeth lie behind it, lips in front.
  const [a, b, c, d, e, f] = fitAffine(own, texture);
  const toTexture = (x: number, y: number) => [a * x + b * y + c, d * x + e * y + f] as const;
  return new MouthInside(still, rig.lips, toTexture, mouthColours(still, shape, iod));
}

/** Returns x and y of some points that have x, y and z. */
function xyOf(points: Float32Array, indices: readonly number[]): Float32Array {
  return Float32Array.from(indices.flatMap((i) => [points[i * 3] as number, points[i * 3 + 1] as number]));
}

/** Returns x and y of some points that have only x and y. */
function pick(points: Float32Array, indices: readonly number[]): Float32Array {
  return Float32Array.from(indices.flatMap((i) => [points[i * 2] as number, points[i * 2 + 1] as number]));
}

/**
 * Draws a portrait in a pose.
 * @param into an earlier frame of the same portrait, which is drawn over
 * @returns a frame, 4:2:0
 */
export function drawPortrait(portrait: Portrait, wanted: Pose, into?: Uint8Array): Uint8Array {
  const pose = portrait.covered ? shownPose(wanted, portrait.covered) : wanted;
  const { shape, surround, width, height, box, background, alpha } = portrait;
  const out = into ?? portrait.still.slice();
  const planes = planesOf(out, width, height);
  const placed = placeVertices(portrait, pose);
  const still = planesOf(portrait.still, width, height);
  const away = wayOf(placed.turned, shape.texture, portrait.frame.iod);
  paintBackground(planes, { still, background, box, away });
  const skin = farthestFirst(shape.skin, placed.depth);
  const layers = [
    { triangles: surround.soft, transparent: true },
    { triangles: surround.opaque, transparent: false },
    { triangles: shape.eyes, transparent: false },
    // Fills the opening of the mouth, because the background would show at its edge.
    { triangles: MOUTH_TRIANGLES, transparent: false },
    { triangles: skin, transparent: false },
  ];
  for (const { triangles, transparent } of layers) {
    const { moved: to } = placed;
    // Content outside the box is not redrawn in the next frame.
    const geometry: TriangleGeometry = { to, from: shape.texture, triangles, scale: 1, clip: box };
    const half = { ...geometry, scale: 0.5 };
    drawTexture(planes.y, still.y, geometry, transparent ? { width, height, data: alpha.luma } : undefined);
    const coarse = transparent ? { width: width / 2, height: height / 2, data: alpha.chroma } : undefined;
    drawTextures([planes.u, planes.v], [still.u, still.v], half, coarse);
  }
  smoothSilhouette(planes.y, box, placed.moved, portrait.edges);
  paintEyes(planes, still, portrait, placed, pose.expression);
  if (!portrait.covered?.mouth) paintMouth(planes, still, portrait, placed, pose.expression);
  return out;
}

/**
 * Moves a plane that lies over the still, such as a matte, as a pose moves the still.
 * @param into as large as the still; only the moving part is drawn
 */
export function movePlane(portrait: Portrait, pose: Pose, plane: BytePlane, into: BytePlane): void {
  const { shape, surround, box } = portrait;
  const { moved: to, depth } = placeVertices(portrait, pose);
  const skin = farthestFirst(shape.skin, depth);
  for (const triangles of [surround.soft, surround.opaque, shape.eyes, skin]) {
    drawTexture(into, plane, { to, from: shape.texture, triangles, scale: 1, clip: box });
  }
}

/** Returns x and y of a portrait's vertices in a pose; the first are the mesh's points. */
export function posedPoints(portrait: Portrait, pose: Pose): Float32Array {
  return placeVertices(portrait, pose).moved;
}

/** What the shoulders take of the head's motion: of its shift and growth, and in IOD per radian of its turns. */
const SHOULDERS = { dx: 0.4, dy: 0.3, scale: 0.4, yaw: 0.14, roll: 0.25 };

interface Placed {
  /** Places of the vertices on the frame, with and without the expression, x and y in turn. */
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
  portrait.covered?.points.forEach((share, v) => {
    for (const k of [v * 2, v * 2 + 1]) offsets[k] = (offsets[k] as number) * (1 - share);
  });
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
  const lean = pose.dx * SHOULDERS.dx + pose.yaw * SHOULDERS.yaw + pose.roll * SHOULDERS.roll;
  const sink = pose.dy * SHOULDERS.dy - (pose.breath ?? 0);
  const nearer = (pose.scale - 1) * SHOULDERS.scale;
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
    const rest = (1 - w) * (shape.shoulders[v] as number);
    const bx = rest * (lean * iod + nearer * px);
    const by = rest * (sink * iod + nearer * py);
    turned[v * 2] = x + (tx - x) * w + bx;
    turned[v * 2 + 1] = y + (ty - y) * w + by;
    moved[v * 2] = x + (tx + dx - x) * w + bx;
    moved[v * 2 + 1] = y + (ty + dy - y) * w + by;
    depth[v] = at(r, 6) * px + at(r, 7) * py + at(r, 8) * pz;
  }
  return { moved, turned, depth, jaw };
}

/** A lid closes over the eyeball, so the visible eye is not compressed. */
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
  { moved, turned }: Placed,
  { lips }: Expression,
): void {
  if (!lips) {
    // Unmoved lips show the still's own content.
    paintOpening(planes, pick(moved, LIPS_INNER), stillShader(still, turned, shape, MOUTH_PLANE));
    return;
  }
  const now = rig.lips.slice();
  for (let i = 0; i < now.length; i++) now[i] = (now[i] as number) + (lips[i] as number);
  const [a, b, c, d, e, f] = fitAffine(pick(turned, MOUTH_PLANE), xyOf(shape.own, MOUTH_PLANE));
  const shade = mouth.shader(now, (x, y) => [a * x + b * y + c, d * x + e * y + f]);
  paintOpening(planes, pick(moved, LIPS_INNER), shade);
}

/** Returns a shader for the still around some points that moved only with the head. */
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
    out[0] = sharpByte(still.y, tx, ty);
    out[1] = sampleByte(still.u, tx / 2, ty / 2);
    out[2] = sampleByte(still.v, tx / 2, ty / 2);
  };
}
