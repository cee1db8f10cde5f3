/** The 21 key points by which LivePortrait moves a face, and how a driver's motion moves those of a still. */

export const KEY_POINTS = 21;

/** Measurements of the motion extractor in a picture. Angles are in degrees; triples are consecutive. */
export interface HeadMotion {
  readonly pitch: number;
  readonly yaw: number;
  readonly roll: number;
  readonly scale: number;
  readonly translation: Float32Array;
  /** Offset of each key point by the expression. */
  readonly expression: Float32Array;
  /** Key points of the face without pose and expression. */
  readonly points: Float32Array;
}

/** A rotation matrix, row by row. */
type Matrix = readonly number[];

/** The transform between the canonical key points of a face and those in a picture. */
interface Placement {
  readonly rotation: Matrix;
  readonly scale: number;
  readonly translation: ArrayLike<number>;
  readonly expression: ArrayLike<number>;
}

/**
 * Key points whose expression is taken over from the driver when its motion is absolute. WHOLE has all of eyes,
 * brows and mouth; PARTS has the axes of others that do not belong to the shape of a face
 * (`src/live_portrait_pipeline.py` of KwaiVGI/LivePortrait, the branch without relative motion).
 */
const WHOLE = [1, 2, 6, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
const PARTS: readonly (readonly [point: number, axis: number])[] = [
  ...[3, 4].map((point) => [point, 1] as const),
  [5, 2],
  [8, 2],
  [9, 1],
  [9, 2],
];
const TAKEN: ReadonlySet<number> = new Set([
  ...WHOLE.flatMap((point) => [0, 1, 2].map((axis) => point * 3 + axis)),
  ...PARTS.map(([point, axis]) => point * 3 + axis),
]);

/**
 * Returns Rz · Ry · Rx: pitch rotates about x, yaw about y, roll about z, in this order about fixed axes.
 * LivePortrait has the transpose and multiplies from the right (`get_rotation_matrix` in its
 * `src/utils/camera.py`), which is the same.
 */
export function rotationOf({ pitch, yaw, roll }: Pick<HeadMotion, 'pitch' | 'yaw' | 'roll'>): Matrix {
  const [x, y, z] = [pitch, yaw, roll].map((angle) => (angle * Math.PI) / 180) as [number, number, number];
  const [sx, cx, sy, cy, sz, cz] = [
    ...[Math.sin(x), Math.cos(x)],
    ...[Math.sin(y), Math.cos(y)],
    ...[Math.sin(z), Math.cos(z)],
  ] as [number, number, number, number, number, number];
  return [
    ...[cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx],
    ...[sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx],
    ...[-sy, cy * sx, cy * cx],
  ];
}

function times(a: Matrix, b: Matrix): Matrix {
  return a.map((_, i) => {
    const [row, column] = [i - (i % 3), i % 3];
    return [0, 1, 2].reduce((sum, k) => sum + (a[row + k] as number) * (b[k * 3 + column] as number), 0);
  });
}

function transposed(m: Matrix): Matrix {
  return m.map((_, i) => m[(i % 3) * 3 + Math.floor(i / 3)] as number);
}

/**
 * Computes scale × (rotated point + expression) + translation, without the shift in depth (`transform_keypoint`
 * there).
 */
function place(points: ArrayLike<number>, placement: Placement): Float32Array<ArrayBuffer> {
  const { rotation, scale, translation, expression } = placement;
  return Float32Array.from({ length: KEY_POINTS * 3 }, (_, i) => {
    const [point, axis] = [i - (i % 3), i % 3];
    let turned = 0;
    for (let k = 0; k < 3; k++) turned += (rotation[axis * 3 + k] as number) * (points[point + k] as number);
    return scale * (turned + (expression[i] as number)) + (axis < 2 ? (translation[axis] as number) : 0);
  });
}

/** Returns the key points of a face in its picture. */
export function keyPointsOf(motion: HeadMotion): Float32Array<ArrayBuffer> {
  return place(motion.points, { ...motion, rotation: rotationOf(motion) });
}

/** Returns a still's key points when its head moves as a driver's did since its first frame. */
export function relativeKeyPoints(
  still: HeadMotion,
  driver: HeadMotion,
  first: HeadMotion,
): Float32Array<ArrayBuffer> {
  const since = times(transposed(rotationOf(first)), rotationOf(driver));
  const added = (from: (motion: HeadMotion) => Float32Array): Float32Array =>
    from(still).map((value, i) => value + (from(driver)[i] as number) - (from(first)[i] as number));
  return place(still.points, {
    rotation: times(rotationOf(still), since),
    scale: still.scale * (driver.scale / first.scale),
    translation: added(({ translation }) => translation),
    expression: added(({ expression }) => expression),
  });
}

/** Returns a still's key points when it holds head and face as the driver does. */
export function absoluteKeyPoints(still: HeadMotion, driver: HeadMotion): Float32Array<ArrayBuffer> {
  return place(still.points, {
    rotation: rotationOf(driver),
    scale: still.scale,
    translation: driver.translation,
    expression: still.expression.map((own, i) => (TAKEN.has(i) ? (driver.expression[i] as number) : own)),
  });
}

export function mixKeyPoints(a: Float32Array, b: Float32Array, share: number): Float32Array<ArrayBuffer> {
  return Float32Array.from(a, (value, i) => value + ((b[i] as number) - value) * share);
}
