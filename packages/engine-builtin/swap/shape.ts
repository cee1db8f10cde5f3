import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { EYES, shapeEye, shapeLips } from './feature-shapes.ts';
import { ALL_SHOWN, type ShownFeatures } from './shown-features.ts';

/** Rotation (row-major 3 × 3), scale and shift that map one point set onto another. */
export interface Similarity {
  readonly rotation: readonly number[];
  readonly scale: number;
  readonly shift: readonly [number, number, number];
}

/**
 * Returns the least-squares similarity that maps `from` onto `to`, by Horn's closed form over unit quaternions
 * (Horn 1987, "Closed-form solution of absolute orientation using unit quaternions").
 * @param weights one for each point, not negative
 */
function alignPoints(from: Float32Array, to: Float32Array, weights: Float32Array): Similarity {
  const count = weights.length;
  const meanFrom = [0, 0, 0];
  const meanTo = [0, 0, 0];
  let total = 0;
  for (let i = 0; i < count; i++) {
    const w = weights[i] as number;
    total += w;
    for (let k = 0; k < 3; k++) {
      meanFrom[k] = (meanFrom[k] as number) + w * (from[i * 3 + k] as number);
      meanTo[k] = (meanTo[k] as number) + w * (to[i * 3 + k] as number);
    }
  }
  for (let k = 0; k < 3; k++) {
    meanFrom[k] = (meanFrom[k] as number) / total;
    meanTo[k] = (meanTo[k] as number) / total;
  }
  const cross = new Float64Array(9);
  let spreadFrom = 0;
  let spreadTo = 0;
  for (let i = 0; i < count; i++) {
    const w = weights[i] as number;
    for (let a = 0; a < 3; a++) {
      const f = (from[i * 3 + a] as number) - (meanFrom[a] as number);
      const g = (to[i * 3 + a] as number) - (meanTo[a] as number);
      spreadFrom += w * f * f;
      spreadTo += w * g * g;
      for (let b = 0; b < 3; b++) {
        const h = (to[i * 3 + b] as number) - (meanTo[b] as number);
        cross[a * 3 + b] = (cross[a * 3 + b] as number) + w * f * h;
      }
    }
  }
  const rotation = rotationFromCross(cross);
  const scale = Math.sqrt(spreadTo / Math.max(spreadFrom, 1e-9));
  const shift = [0, 1, 2].map((r) => {
    let turned = 0;
    for (let c = 0; c < 3; c++) turned += (rotation[r * 3 + c] as number) * (meanFrom[c] as number);
    return (meanTo[r] as number) - scale * turned;
  }) as [number, number, number];
  return { rotation, scale, shift };
}

function rotationFromCross(m: Float64Array): number[] {
  const [xx = 0, xy = 0, xz = 0, yx = 0, yy = 0, yz = 0, zx = 0, zy = 0, zz = 0] = m;
  const n = [
    xx + yy + zz,
    yz - zy,
    zx - xz,
    xy - yx,
    yz - zy,
    xx - yy - zz,
    xy + yx,
    zx + xz,
    zx - xz,
    xy + yx,
    yy - xx - zz,
    yz + zy,
    xy - yx,
    zx + xz,
    yz + zy,
    zz - xx - yy,
  ];
  // The wanted eigenvector has the largest eigenvalue. A shift by the norm makes that eigenvalue the largest in
  // magnitude too.
  const norm = Math.sqrt(n.reduce((sum, value) => sum + value * value, 0)) + 1e-12;
  const q = Float64Array.of(1, 0.01, 0.01, 0.01);
  const next = new Float64Array(4);
  for (let step = 0; step < 200; step++) {
    for (let r = 0; r < 4; r++) {
      let sum = norm * (q[r] as number);
      for (let c = 0; c < 4; c++) sum += (n[r * 4 + c] as number) * (q[c] as number);
      next[r] = sum;
    }
    let length = 0;
    for (let r = 0; r < 4; r++) length += (next[r] as number) ** 2;
    length = Math.sqrt(length);
    let moved = 0;
    for (let r = 0; r < 4; r++) {
      const value = (next[r] as number) / length;
      moved = Math.max(moved, Math.abs(value - (q[r] as number)));
      q[r] = value;
    }
    if (moved === 0) break;
  }
  const [w = 1, x = 0, y = 0, z = 0] = q;
  return [
    w * w + x * x - y * y - z * z,
    2 * (x * y - w * z),
    2 * (x * z + w * y),
    2 * (x * y + w * z),
    w * w - x * x + y * y - z * z,
    2 * (y * z - w * x),
    2 * (x * z - w * y),
    2 * (y * z + w * x),
    w * w - x * x - y * y + z * z,
  ];
}

function applySimilarity(transform: Similarity, points: Float32Array): Float32Array {
  const out = new Float32Array(points.length);
  const { rotation, scale, shift } = transform;
  for (let i = 0; i < points.length; i += 3) {
    for (let r = 0; r < 3; r++) {
      let sum = 0;
      for (let c = 0; c < 3; c++) sum += (rotation[r * 3 + c] as number) * (points[i + c] as number);
      out[i + r] = scale * sum + (shift[r] as number);
    }
  }
  return out;
}

const NOSE = [
  168, 6, 197, 195, 5, 4, 1, 19, 94, 2, 98, 97, 326, 327, 294, 278, 344, 440, 275, 45, 220, 115, 48, 64, 122,
  351, 196, 419, 3, 248, 51, 281, 131, 360, 49, 279, 102, 331, 129, 358, 134, 363, 236, 456, 198, 420, 209,
  429, 217, 437,
];

/** Mesh points that depend on the person and not on the expression; the alignment uses them. */
const RIGID = [...RIGHT_EYE, ...LEFT_EYE, ...NOSE, 9, 8, 151, 10, 234, 454, 127, 356, 162, 389, 93, 323];

const NEIGHBOURS = neighbours();

/**
 * Returns the points that share an edge with each point, all in one list, and the start of each point's neighbours
 * in it.
 */
function neighbours(): { points: Uint16Array; starts: Uint16Array } {
  const sets = Array.from({ length: POINTS }, () => new Set<number>());
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    for (let k = 0; k < 3; k++) {
      const a = FACE_TRIANGLES[t + k] as number;
      const b = FACE_TRIANGLES[t + ((k + 1) % 3)] as number;
      sets[a]?.add(b);
      sets[b]?.add(a);
    }
  }
  const points = sets.map((set) => [...set].sort((a, b) => a - b));
  const starts = new Uint16Array(POINTS + 1);
  for (const [i, near] of points.entries()) starts[i + 1] = (starts[i] as number) + near.length;
  return { points: Uint16Array.from(points.flat()), starts };
}

/** Returns the source's points in the target's pose and size. */
export function inPoseOf(target: Float32Array, source: Float32Array): Float32Array {
  const weights = new Float32Array(POINTS);
  for (const index of RIGID) weights[index] = 1;
  return applySimilarity(alignPoints(source, target, weights), source);
}

/**
 * Returns the target's points after its face takes on the source's proportions. Eyes, brows, nose and mouth move to
 * their place in the source, in the target's pose; the outline stays; points between them follow smoothly. Lips and
 * eyes also take the source's shape, but keep the target's openings (its expression).
 * @param width of the face
 * @param shown share of each feature that moves
 * @returns x and y of each point, stride 2
 */
export function mixShape(
  target: Float32Array,
  source: Float32Array,
  width: number,
  shown: ShownFeatures = ALL_SHOWN,
): Float32Array {
  const posed = inPoseOf(target, source);
  const move = new Float32Array(POINTS * 2);
  const fixed = new Uint8Array(POINTS);
  for (const index of FACE_OVAL) fixed[index] = 1;
  const limit = 0.12 * width;
  let share = 1;
  const set = (index: number, dx: number, dy: number): void => {
    const length = Math.hypot(dx, dy);
    const scale = share * (length > limit ? limit / length : 1);
    move[index * 2] = dx * scale;
    move[index * 2 + 1] = dy * scale;
    fixed[index] = 1;
  };
  const dx = (i: number): number => (posed[i * 3] as number) - (target[i * 3] as number);
  const dy = (i: number): number => (posed[i * 3 + 1] as number) - (target[i * 3 + 1] as number);
  share = shown.nose;
  for (const index of NOSE) set(index, dx(index), dy(index));
  share = shown.mouth;
  shapeLips(target, posed, set);
  for (const [side, brow] of [RIGHT_BROW, LEFT_BROW].entries()) {
    share = side === 0 ? shown.rightBrow : shown.leftBrow;
    for (const index of brow) set(index, dx(index), dy(index));
    share = side === 0 ? shown.right : shown.left;
    shapeEye(target, posed, EYES[side] as (typeof EYES)[number], set);
  }
  relax(move, fixed);
  const out = new Float32Array(POINTS * 2);
  for (let i = 0; i < POINTS; i++) {
    out[i * 2] = (target[i * 3] as number) + (move[i * 2] as number);
    out[i * 2 + 1] = (target[i * 3 + 1] as number) + (move[i * 2 + 1] as number);
  }
  return out;
}

/** Moves each free point to the mean of its neighbours (a membrane over the mesh). */
function relax(move: Float32Array, fixed: Uint8Array): void {
  for (let pass = 0; pass < 60; pass++) {
    for (let i = 0; i < POINTS; i++) {
      if (fixed[i]) continue;
      const start = NEIGHBOURS.starts[i] as number;
      const end = NEIGHBOURS.starts[i + 1] as number;
      let x = 0;
      let y = 0;
      for (let k = start; k < end; k++) {
        const j = (NEIGHBOURS.points[k] as number) * 2;
        x += move[j] as number;
        y += move[j + 1] as number;
      }
      move[i * 2] = x / (end - start);
      move[i * 2 + 1] = y / (end - start);
    }
  }
}
