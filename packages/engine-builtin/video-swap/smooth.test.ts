import { POINTS } from '@semblance/vision/face-mesh';
import { describe, expect, it } from 'vitest';
import { posed, smoothedMesh } from './smooth.ts';

/** Returns a flat face 300 pixels wide whose outer eye corners are 100 apart. */
function mesh(shiftX: number, mouth: number, noise: () => number): Float32Array {
  const points = new Float32Array(POINTS * 3);
  for (let i = 0; i < POINTS; i++) {
    points[i * 3] = 200 + 140 * Math.cos(i * 2.4) * Math.sqrt(i / POINTS);
    points[i * 3 + 1] = 200 + 140 * Math.sin(i * 2.4) * Math.sqrt(i / POINTS);
  }
  points.set([150, 180, 0], 33 * 3);
  points.set([250, 180, 0], 263 * 3);
  for (const lip of [14, 17, 152, 87, 317]) points[lip * 3 + 1] = (points[lip * 3 + 1] as number) + mouth;
  for (let i = 0; i < points.length; i += 3) {
    points[i] = (points[i] as number) + shiftX + noise();
    points[i + 1] = (points[i + 1] as number) + noise();
  }
  return points;
}

function generator(seed: number): () => number {
  let state = seed;
  return () => {
    let sum = 0;
    for (let k = 0; k < 4; k++) {
      state = (state * 48_271) % 2_147_483_647;
      sum += state / 2_147_483_647 - 0.5;
    }
    return 0.3 * Math.sqrt(3) * sum;
  };
}

/** Returns the root mean square distance of two meshes in pixels, which is per cent of these faces' eye distance. */
function apart(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i += 3) {
    sum += ((a[i] as number) - (b[i] as number)) ** 2 + ((a[i + 1] as number) - (b[i + 1] as number)) ** 2;
  }
  return Math.sqrt(sum / POINTS);
}

const still = () => 0;

function smooth(frames: readonly Float32Array[], index: number): Float32Array {
  const reference = frames[0] as Float32Array;
  return smoothedMesh((i) => (frames[i] ? posed(frames[i], reference) : undefined), index);
}

describe('meshes over time', () => {
  it('averages the noise of a resting and of an evenly moving face, without lag', () => {
    for (const speed of [0, 3]) {
      const noise = generator(7);
      const frames = Array.from({ length: 9 }, (_, i) => mesh(speed * i, 0, noise));
      const truth = mesh(speed * 4, 0, still);
      const mean = smooth(frames, 4);
      expect(apart(frames[4] as Float32Array, truth)).toBeGreaterThan(0.35);
      expect(apart(mean, truth)).toBeLessThan(0.2);
    }
  });

  it('keeps a sudden move and a mouth that opens for one frame', () => {
    const jump = Array.from({ length: 9 }, (_, i) => mesh(i < 4 ? 0 : 12, 0, still));
    expect(apart(smooth(jump, 4), jump[4] as Float32Array)).toBeLessThan(0.05);
    const word = Array.from({ length: 9 }, (_, i) => mesh(0, i === 4 ? 15 : 0, still));
    const lip = (points: Float32Array) => points[14 * 3 + 1] as number;
    // The mouth opens by 15 pixels for one frame.
    const lost = lip(word[4] as Float32Array) - lip(smooth(word, 4));
    expect(Math.abs(lost)).toBeLessThan(1);
  });

  it('leaves the first and the last frame as they are', () => {
    const noise = generator(3);
    const frames = Array.from({ length: 3 }, () => mesh(0, 0, noise));
    expect(smooth(frames, 0)).toEqual(frames[0]);
    expect(smooth(frames, 2)).toEqual(frames[2]);
  });
});
