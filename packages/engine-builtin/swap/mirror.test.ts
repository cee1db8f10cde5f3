import { POINTS } from '@semblance/vision/face-mesh';
import {
  FACE_OVAL,
  LEFT_BROW,
  LEFT_EYE,
  LIPS_INNER,
  RIGHT_BROW,
  RIGHT_EYE,
} from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { describe, expect, it } from 'vitest';
import { MIRRORED, mirrorMap } from './mirror.ts';

describe('the other side of the mesh', () => {
  it('is the same way there and back, for every point', () => {
    for (let i = 0; i < POINTS; i++) expect(MIRRORED[MIRRORED[i] as number]).toBe(i);
  });

  it('has the tip of the nose, the chin and the lips in the middle', () => {
    for (const point of [1, 4, 152, 10, 13, 14, 168]) expect(MIRRORED[point]).toBe(point);
    expect([...MIRRORED].filter((other, i) => other === i)).toHaveLength(28);
  });

  it.each([
    ['eyes', RIGHT_EYE, LEFT_EYE],
    ['brows', RIGHT_BROW, LEFT_BROW],
    ['outline', FACE_OVAL, FACE_OVAL],
    ['mouth', LIPS_INNER, LIPS_INNER],
  ])('carries the points of one side onto those of the other: %s', (_, from, to) => {
    const others = from.map((point) => MIRRORED[point] as number);
    expect(others.toSorted((a, b) => a - b)).toEqual([...to].sort((a, b) => a - b));
  });

  it('carries all triangles onto triangles but the few that divide their square the other way', () => {
    const corners = (points: number[]): string => points.toSorted((a, b) => a - b).join(' ');
    const all = new Set<string>();
    const mirrored: string[] = [];
    for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
      const points = [...FACE_TRIANGLES.subarray(t, t + 3)];
      all.add(corners(points));
      mirrored.push(corners(points.map((point) => MIRRORED[point] as number)));
    }
    expect(mirrored.filter((triangle) => !all.has(triangle))).toHaveLength(12);
  });
});

it('shows the place across the middle of a face that is the same on both sides', () => {
  const size = 200;
  // A flat mask: the outline on a circle, every other point at the mean of its neighbours.
  const points = new Float32Array(POINTS * 3);
  const outline = new Set<number>(FACE_OVAL);
  FACE_OVAL.forEach((point, k) => {
    const angle = (k / FACE_OVAL.length) * 2 * Math.PI;
    points.set([100 + 80 * Math.sin(angle), 100 - 80 * Math.cos(angle), 0], point * 3);
  });
  const around = Array.from({ length: POINTS }, () => new Set<number>());
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    const corners = [...FACE_TRIANGLES.subarray(t, t + 3)];
    for (const a of corners) for (const b of corners) if (a !== b) around[a]?.add(b);
  }
  for (let round = 0; round < 400; round++) {
    for (const [i, others] of around.entries()) {
      if (outline.has(i)) continue;
      for (const k of [0, 1]) {
        const sum = [...others].reduce((total, other) => total + (points[other * 3 + k] as number), 0);
        points[i * 3 + k] = sum / others.size;
      }
    }
  }
  const map = mirrorMap(points, { width: size, height: size });
  for (const [x, y] of [
    [60, 100],
    [130, 140],
    [90, 60],
  ] as const) {
    const i = y * size + x;
    expect(map.covered.data[i]).toBe(1);
    // Triangles that divide their square along the other diagonal make such a mask slightly asymmetric.
    expect(Math.abs((map.x.data[i] as number) - (size - x - 0.5))).toBeLessThan(3);
    expect(Math.abs((map.y.data[i] as number) - (y + 0.5))).toBeLessThan(3);
  }
  expect(map.covered.data[5 * size + 5]).toBe(0);
});
