/**
 * Rotations in the camera's frame: x right, y down, z away from the viewer. A positive yaw turns the nose to the right
 * of the picture, a positive pitch turns it down, a positive roll turns the head clockwise.
 */

/** A 3 × 3 matrix, row by row. */
export type Matrix3 = Float64Array;

export interface Angles {
  readonly roll: number;
  readonly yaw: number;
  readonly pitch: number;
}

/** Applies pitch, then yaw, then roll. */
export function rotationOf({ roll, yaw, pitch }: Angles): Matrix3 {
  const [cr, sr] = [Math.cos(roll), Math.sin(roll)];
  const [cy, sy] = [Math.cos(yaw), Math.sin(yaw)];
  const [cp, sp] = [Math.cos(pitch), Math.sin(pitch)];
  // Rz(roll) · Ry(-yaw) · Rx(pitch)
  return Float64Array.of(
    cr * cy,
    -cr * sy * sp - sr * cp,
    -cr * sy * cp + sr * sp,
    sr * cy,
    -sr * sy * sp + cr * cp,
    -sr * sy * cp - cr * sp,
    sy,
    cy * sp,
    cy * cp,
  );
}

/**
 * Returns the angles from which {@link rotationOf} makes this rotation; the head must face the camera's half-space.
 */
export function anglesOf(r: Matrix3): Angles {
  const at = (i: number): number => r[i] as number;
  return {
    roll: Math.atan2(at(3), at(0)),
    yaw: Math.asin(Math.min(1, Math.max(-1, at(6)))),
    pitch: Math.atan2(at(7), at(8)),
  };
}

/** A similarity between two point sets: to = scale · rotation · (from − fromCenter) + toCenter. */
export interface RigidFit {
  readonly rotation: Matrix3;
  readonly scale: number;
  readonly fromCenter: readonly [number, number, number];
  readonly toCenter: readonly [number, number, number];
}

/** Returns the least-squares similarity between two point sets (Horn 1987, by unit quaternions). */
export function fitRigid(from: Float32Array, to: Float32Array, indices: readonly number[]): RigidFit {
  const a = center(from, indices);
  const b = center(to, indices);
  const m = new Float64Array(9);
  let fromSquares = 0;
  let toSquares = 0;
  for (const i of indices) {
    for (let r = 0; r < 3; r++) {
      const p = (from[i * 3 + r] as number) - (a[r] as number);
      const q = (to[i * 3 + r] as number) - (b[r] as number);
      fromSquares += p * p;
      toSquares += q * q;
      for (let c = 0; c < 3; c++) {
        m[r * 3 + c] = (m[r * 3 + c] as number) + p * ((to[i * 3 + c] as number) - (b[c] as number));
      }
    }
  }
  return {
    rotation: rotationFromCorrelation(m),
    scale: Math.sqrt(toSquares / Math.max(1e-12, fromSquares)),
    fromCenter: a,
    toCenter: b,
  };
}

function center(points: Float32Array, indices: readonly number[]): [number, number, number] {
  const sum: [number, number, number] = [0, 0, 0];
  for (const i of indices) for (const k of [0, 1, 2] as const) sum[k] += points[i * 3 + k] as number;
  return [sum[0] / indices.length, sum[1] / indices.length, sum[2] / indices.length];
}

function rotationFromCorrelation(m: Float64Array): Matrix3 {
  const s = (r: number, c: number): number => m[r * 3 + c] as number;
  const trace = s(0, 0) + s(1, 1) + s(2, 2);
  const n = [
    [trace, s(1, 2) - s(2, 1), s(2, 0) - s(0, 2), s(0, 1) - s(1, 0)],
    [s(1, 2) - s(2, 1), s(0, 0) - s(1, 1) - s(2, 2), s(0, 1) + s(1, 0), s(2, 0) + s(0, 2)],
    [s(2, 0) - s(0, 2), s(0, 1) + s(1, 0), s(1, 1) - s(0, 0) - s(2, 2), s(1, 2) + s(2, 1)],
    [s(0, 1) - s(1, 0), s(2, 0) + s(0, 2), s(1, 2) + s(2, 1), s(2, 2) - s(0, 0) - s(1, 1)],
  ];
  // Power iteration towards the largest eigenvalue; the shift makes all eigenvalues positive.
  const shift = n.reduce(
    (most, row) =>
      Math.max(
        most,
        row.reduce((sum, v) => sum + Math.abs(v), 0),
      ),
    0,
  );
  let q = [1, 0.01, 0.01, 0.01];
  for (let round = 0; round < 200; round++) {
    const next = n.map((row, r) =>
      row.reduce((sum, v, c) => sum + v * (q[c] as number), shift * (q[r] as number)),
    );
    const length = Math.hypot(...next) || 1;
    const unit = next.map((v) => v / length);
    const moved = unit.reduce((sum, v, k) => sum + Math.abs(v - (q[k] as number)), 0);
    q = unit;
    if (moved < 1e-9) break;
  }
  return rotationFromQuaternion(q as [number, number, number, number]);
}

function rotationFromQuaternion([w, x, y, z]: readonly [number, number, number, number]): Matrix3 {
  return Float64Array.of(
    1 - 2 * (y * y + z * z),
    2 * (x * y - w * z),
    2 * (x * z + w * y),
    2 * (x * y + w * z),
    1 - 2 * (x * x + z * z),
    2 * (y * z - w * x),
    2 * (x * z - w * y),
    2 * (y * z + w * x),
    1 - 2 * (x * x + y * y),
  );
}
