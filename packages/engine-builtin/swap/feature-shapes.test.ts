import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { describe, expect, it } from 'vitest';
import { EYES, shapeEye, shapeLips } from './feature-shapes.ts';

const POINTS = 468;
const RIGHT = EYES[0];

/**
 * Returns points of both lips on ellipses around (100, 150). The mouth opens by `opening`, and `thickness` is that
 * of the lips.
 */
function mouth(shape: { width: number; opening: number; thickness: number }, dx = 0): Float32Array {
  const points = new Float32Array(POINTS * 3);
  const rings = [
    LIPS_OUTER,
    [76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 408, 304, 303, 302, 11, 72, 73, 74, 184],
    [62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 407, 272, 271, 268, 12, 38, 41, 42, 183],
    LIPS_INNER,
  ];
  for (const [ring, indices] of rings.entries()) {
    const lip = (shape.thickness * (3 - ring)) / 3;
    for (const [j, index] of indices.entries()) {
      const angle = Math.PI + (j / 20) * -2 * Math.PI;
      points[index * 3] = 100 + dx + (shape.width / 2 + lip / 2) * Math.cos(angle);
      points[index * 3 + 1] = 150 + (shape.opening / 2 + lip) * Math.sin(angle);
    }
  }
  return points;
}

/** Returns an eye of the given width and opening, rotated by an angle, around (60, 80). */
function eye(shape: { width: number; opening: number; tilt: number }): Float32Array {
  const points = new Float32Array(POINTS * 3);
  for (const [ring, indices] of [RIGHT.outline, RIGHT.rings.slice(16)].entries()) {
    const scale = 1 + 0.3 * ring;
    for (const [j, index] of indices.entries()) {
      const angle = Math.PI - (j / 16) * 2 * Math.PI;
      const x = (scale * shape.width * Math.cos(angle)) / 2;
      const y = (scale * shape.opening * Math.sin(angle)) / 2;
      points[index * 3] = 60 + x * Math.cos(shape.tilt) - y * Math.sin(shape.tilt);
      points[index * 3 + 1] = 80 + x * Math.sin(shape.tilt) + y * Math.cos(shape.tilt);
    }
  }
  return points;
}

function moved(target: Float32Array, work: (move: (i: number, dx: number, dy: number) => void) => void) {
  const out = target.slice();
  work((index, dx, dy) => {
    out[index * 3] = (target[index * 3] as number) + dx;
    out[index * 3 + 1] = (target[index * 3 + 1] as number) + dy;
  });
  return (index: number): { x: number; y: number } => ({
    x: out[index * 3] as number,
    y: out[index * 3 + 1] as number,
  });
}

describe('lips', () => {
  it('take the thickness and the place of the source and keep the opening of the target', () => {
    const target = mouth({ width: 60, opening: 20, thickness: 4 });
    const source = mouth({ width: 60, opening: 0, thickness: 12 }, 5);
    const at = moved(target, (move) => shapeLips(target, source, move));
    expect(Math.abs(at(14).y - at(13).y)).toBeCloseTo(20, 3);
    expect(at(17).y - at(14).y).toBeCloseTo(12, 3);
    expect(at(13).y - at(0).y).toBeCloseTo(12, 3);
    expect((at(78).x + at(308).x) / 2).toBeCloseTo(105, 3);
  });

  it('take the width of the source within limits, since a smile widens a mouth', () => {
    const target = mouth({ width: 60, opening: 10, thickness: 6 });
    const far = mouth({ width: 120, opening: 10, thickness: 6 });
    const at = moved(target, (move) => shapeLips(target, far, move));
    expect(at(308).x - at(78).x).toBeCloseTo(60 * 1.15, 1);
  });
});

describe('eyes', () => {
  it('take the tilt and the size of the source and nearly keep the opening of the target', () => {
    const target = eye({ width: 40, opening: 14, tilt: 0 });
    const source = eye({ width: 44, opening: 22, tilt: 0.1 });
    const at = moved(target, (move) => shapeEye(target, source, RIGHT, move));
    const [a, b] = [at(RIGHT.corners[0]), at(RIGHT.corners[1])];
    expect(Math.atan2(b.y - a.y, b.x - a.x)).toBeCloseTo(0.1, 2);
    expect(Math.hypot(b.x - a.x, b.y - a.y)).toBeCloseTo(44, 0);
    const opening = (points: (i: number) => { x: number; y: number }): number =>
      Math.hypot(
        points(RIGHT.lids[0]).x - points(RIGHT.lids[1]).x,
        points(RIGHT.lids[0]).y - points(RIGHT.lids[1]).y,
      );
    const before = opening(moved(target, () => undefined)) / 40;
    expect(opening(at) / 44).toBeGreaterThan(0.97 * before);
    expect(opening(at) / 44).toBeLessThan(1.12 * before);
  });

  it('stay closed when the target closes them', () => {
    const target = eye({ width: 40, opening: 1, tilt: 0 });
    const source = eye({ width: 40, opening: 16, tilt: 0 });
    const at = moved(target, (move) => shapeEye(target, source, RIGHT, move));
    expect(Math.abs(at(RIGHT.lids[0]).y - at(RIGHT.lids[1]).y)).toBeLessThan(1.05);
  });
});
