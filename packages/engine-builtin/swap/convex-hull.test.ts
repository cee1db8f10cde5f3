import { describe, expect, it } from 'vitest';
import { convexHull } from './convex-hull.ts';

describe('convexHull', () => {
  it('is the outline around points, without those inside and on a side', () => {
    const square = Float32Array.of(0, 0, 4, 0, 4, 4, 0, 4, 2, 2, 2, 0, 1, 3);
    const hull = convexHull(square, [0, 1, 2, 3, 4, 5, 6]);
    const corners = Array.from({ length: hull.length / 2 }, (_, i) => `${hull[i * 2]},${hull[i * 2 + 1]}`);
    expect(corners.toSorted()).toEqual(['0,0', '0,4', '4,0', '4,4']);
  });
});
