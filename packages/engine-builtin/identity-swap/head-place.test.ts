import { POINTS } from '@semblance/vision/face-mesh';
import { BODY, BODY_POINTS } from '@semblance/vision/person';
import { describe, expect, it } from 'vitest';
import { apply } from './geometry.ts';
import { fitFace, HeadPlacer, type HeadSpot, mapTo, spotOf } from './head-place.ts';
import { skeletonOf } from './skeleton.ts';

/** Returns x and y of points that are spread like a face's. */
function spread(): Float32Array {
  return Float32Array.from({ length: POINTS * 2 }, (_, i) => 100 + 40 * Math.sin(i * 12.9898) + (i % 2) * 20);
}

/** Returns a body whose head is at a place. */
function bodyAt(x: number, y: number, size: number) {
  const points = Array.from({ length: BODY_POINTS }, () => ({ x, y, z: 0, visibility: 1, presence: 1 }));
  const set = (name: keyof typeof BODY, dx: number, dy: number): void => {
    points[BODY[name]] = { ...(points[0] as (typeof points)[0]), x: x + dx * size, y: y + dy * size };
  };
  for (const [name, dx, dy] of [
    ['leftEye', 0.06, 0],
    ['rightEye', -0.06, 0],
    ['mouthLeft', 0.04, 0.13],
    ['mouthRight', -0.04, 0.13],
    ['leftShoulder', 0.35, 0.45],
    ['rightShoulder', -0.35, 0.45],
    ['leftHip', 0.2, 1.4],
    ['rightHip', -0.2, 1.4],
  ] as const)
    set(name, dx, dy);
  return skeletonOf(points);
}

describe('the place of a head', () => {
  it('is where its face lies on the other face', () => {
    const from = spread();
    const map = mapTo({ x: 300, y: 200, iod: 80, angle: 1.2 }, { x: 100, y: 90 }, { x: 100, y: 190 }, 50);
    const to = new Float32Array(POINTS * 3);
    for (let i = 0; i < POINTS; i++) {
      const q = apply(map, { x: from[i * 2] as number, y: from[i * 2 + 1] as number });
      to.set([q.x, q.y, 0], i * 3);
    }
    fitFace(from, to).forEach((value, k) => {
      expect(value).toBeCloseTo(map[k] as number, 2);
    });
    const spot = spotOf(map, { x: 100, y: 90 }, { x: 100, y: 190 }, 50);
    for (const [key, value] of Object.entries({ x: 300, y: 200, iod: 80, angle: 1.2 })) {
      expect(spot[key as keyof HeadSpot]).toBeCloseTo(value, 3);
    }
  });

  it('follows the body while the face is hidden', () => {
    const placer = new HeadPlacer();
    expect(placer.knows).toBe(false);
    const before = bodyAt(200, 100, 120);
    const spot = { x: 204, y: 108, iod: 24, angle: Math.PI / 2 };
    placer.learn(spot, before);
    const grown = placer.guessed(bodyAt(260, 130, 180));
    expect(grown.x).toBeCloseTo(260 + 4 * 1.5, 1);
    expect(grown.y).toBeCloseTo(130 + 8 * 1.5, 1);
    expect(grown.iod).toBeCloseTo(36, 1);
    expect(grown.angle).toBeCloseTo(Math.PI / 2, 3);
  });
});
