import type { Picture } from '@semblance/engine-api/picture';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { Detection } from './face-detector.ts';
import { FACE_OVAL, FACE_SIDES, LEFT_EYE, RIGHT_EYE } from './face-regions.ts';
import { type CropTransform, cropRgb, type Point, squareCrop, toPicture } from './picture.ts';

export const POINTS = 468;
const SIZE = 192;
/** Side of the network's crop relative to the extent of the face, as in MediaPipe's graph. */
const CROP_SCALE = 1.5;

/** Face in a picture: 468 points in pixels of the picture; z grows away from the viewer, in the same unit. */
export interface Face {
  /** x, y, z of each point. */
  readonly points: Float32Array;
  /** Probability of the mesh network that its crop shows a face, in [0, 1]. */
  readonly score: number;
  /** Distance between the sides of the face, pixels. */
  readonly width: number;
  /** Clockwise turn of the face in the picture, radians. */
  readonly roll: number;
}

/** Returns `size`² pixels of a crop as planes of red, green and blue, 0–255. It may write them into `out`. */
export type CropSource = (crop: CropTransform, size: number, out?: Float32Array) => Float32Array;

/** Fits the face mesh (Kartynnik et al. 2019, "Real-time Facial Surface Geometry from Monocular Video"). */
export class FaceMesher {
  readonly #session: InferenceSession;
  /** Crop buffers that no run uses. */
  readonly #room: Float32Array[] = [];

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  /** Fits the mesh to a detection. The first fit places the crop of the second fit, whose points are the result. */
  async fit(picture: Picture, detection: Detection): Promise<Face> {
    const [rightEye, leftEye] = detection.keyPoints as [Point, Point];
    const angle = Math.atan2(leftEye.y - rightEye.y, leftEye.x - rightEye.x);
    const center = { x: detection.x + detection.width / 2, y: detection.y + detection.height / 2 };
    const side = Math.max(detection.width, detection.height) * CROP_SCALE;
    const rough = await this.#run(cropsOf(picture), center, side, angle);
    return this.refine(picture, rough);
  }

  /** Fits the mesh again in a crop placed by an earlier fit, such as that of the previous frame. */
  async refine(picture: Picture, face: Face): Promise<Face> {
    return this.refineFrom(cropsOf(picture), face);
  }

  /**
   * Does the same for pixels that are in no {@link Picture}.
   * @param disturbed enlarges and turns (radians) the crop, for callers that test how steady the fit is
   */
  async refineFrom(source: CropSource, face: Face, disturbed = { zoom: 1, turn: 0 }): Promise<Face> {
    const { center, side } = placeOf(face);
    return this.#run(source, center, side * CROP_SCALE * disturbed.zoom, face.roll + disturbed.turn);
  }

  async #run(source: CropSource, center: Point, side: number, angle: number): Promise<Face> {
    const crop = squareCrop(center, side, angle, SIZE);
    const room = this.#room.pop() ?? new Float32Array(SIZE * SIZE * 3);
    const data = source(crop, SIZE, room);
    for (let i = 0; i < data.length; i++) data[i] = (data[i] as number) / 255;
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', data, [1, SIZE, SIZE, 3]),
    });
    this.#room.push(room);
    const mesh = outputs.mesh?.data as Float32Array;
    const points = new Float32Array(POINTS * 3);
    for (let i = 0; i < POINTS; i++) {
      const { x, y } = toPicture(crop, mesh[i * 3] as number, mesh[i * 3 + 1] as number);
      points[i * 3] = x;
      points[i * 3 + 1] = y;
      points[i * 3 + 2] = (mesh[i * 3 + 2] as number) * crop.scale;
    }
    const score = outputs.score?.data[0];
    return faceFromPoints(points, typeof score === 'number' ? score : 0);
  }
}

/** Returns crops of a picture. */
export function cropsOf(picture: Picture): CropSource {
  return (crop, size) => cropRgb(picture, crop, size, size).data;
}

/** A square that is turned with a face. */
export interface Place {
  readonly center: Point;
  /** In pixels. */
  readonly side: number;
  /** In radians. */
  readonly roll: number;
}

/** Returns the place of a mesh: the longer side of the turned rectangle around it is the side. */
export function placeOf({ points, roll }: Face): Place {
  const cos = Math.cos(roll);
  const sin = Math.sin(roll);
  let left = Infinity;
  let right = -Infinity;
  let top = Infinity;
  let bottom = -Infinity;
  for (let i = 0; i < POINTS; i++) {
    const { x, y } = pointOf(points, i);
    const u = cos * x + sin * y;
    const v = -sin * x + cos * y;
    left = Math.min(left, u);
    right = Math.max(right, u);
    top = Math.min(top, v);
    bottom = Math.max(bottom, v);
  }
  const u = (left + right) / 2;
  const v = (top + bottom) / 2;
  return {
    center: { x: cos * u - sin * v, y: sin * u + cos * v },
    side: Math.max(right - left, bottom - top),
    roll,
  };
}

/** Derives the other properties of a face from its points. */
export function faceFromPoints(points: Float32Array, score: number): Face {
  const right = centroid(points, RIGHT_EYE);
  const left = centroid(points, LEFT_EYE);
  const a = pointOf(points, FACE_SIDES[0]);
  const b = pointOf(points, FACE_SIDES[1]);
  const depth = (points[FACE_SIDES[0] * 3 + 2] as number) - (points[FACE_SIDES[1] * 3 + 2] as number);
  return {
    points,
    score,
    width: Math.hypot(a.x - b.x, a.y - b.y, depth),
    roll: Math.atan2(left.y - right.y, left.x - right.x),
  };
}

export function pointOf(points: Float32Array, index: number): Point {
  return { x: points[index * 3] as number, y: points[index * 3 + 1] as number };
}

export function centroid(points: Float32Array, indices: readonly number[]): Point {
  let x = 0;
  let y = 0;
  for (const index of indices) {
    x += points[index * 3] as number;
    y += points[index * 3 + 1] as number;
  }
  return { x: x / indices.length, y: y / indices.length };
}

/** Returns the area inside the face outline, in square pixels. */
export function faceArea(face: Face): number {
  let doubled = 0;
  FACE_OVAL.forEach((index, i) => {
    const a = pointOf(face.points, index);
    const b = pointOf(face.points, FACE_OVAL[(i + 1) % FACE_OVAL.length] as number);
    doubled += a.x * b.y - b.x * a.y;
  });
  return Math.abs(doubled) / 2;
}
