import { describe, expect, it } from 'vitest';
import { anglesOf, fitRigid, rotationOf } from './rotation.ts';

describe('rotations', () => {
  it('give back the angles they were made of', () => {
    for (const angles of [
      { roll: 0, yaw: 0, pitch: 0 },
      { roll: 0.4, yaw: -0.6, pitch: 0.3 },
      { roll: -1.2, yaw: 0.2, pitch: -0.5 },
    ]) {
      const back = anglesOf(rotationOf(angles));
      for (const key of ['roll', 'yaw', 'pitch'] as const) expect(back[key]).toBeCloseTo(angles[key], 9);
    }
  });

  it('turn the nose right for yaw, down for pitch, and the head clockwise for roll', () => {
    const nose = [0, 0, -1] as const;
    const turned = (angles: { roll: number; yaw: number; pitch: number }, [x, y, z]: readonly number[]) => {
      const r = rotationOf(angles);
      const row = (k: number) =>
        (r[k] as number) * (x as number) +
        (r[k + 1] as number) * (y as number) +
        (r[k + 2] as number) * (z as number);
      return { x: row(0), y: row(3) };
    };
    expect(turned({ roll: 0, yaw: 0.3, pitch: 0 }, nose).x).toBeCloseTo(Math.sin(0.3));
    expect(turned({ roll: 0, yaw: 0, pitch: 0.3 }, nose).y).toBeCloseTo(Math.sin(0.3));
    expect(turned({ roll: 0.3, yaw: 0, pitch: 0 }, [1, 0, 0]).y).toBeCloseTo(Math.sin(0.3));
  });

  it('are found again between two sets of points, with shift and scale', () => {
    const rotation = rotationOf({ roll: 0.5, yaw: -0.4, pitch: 0.2 });
    const from = Float32Array.from({ length: 30 }, (_, i) => Math.sin(i * 12.9898) * 40);
    const to = new Float32Array(30);
    for (let i = 0; i < 30; i += 3) {
      for (let k = 0; k < 3; k++) {
        let sum = 0;
        for (let j = 0; j < 3; j++) sum += (rotation[k * 3 + j] as number) * (from[i + j] as number);
        to[i + k] = 1.7 * sum + 11 * k;
      }
    }
    const fit = fitRigid(
      from,
      to,
      Array.from({ length: 10 }, (_, i) => i),
    );
    expect(fit.scale).toBeCloseTo(1.7, 5);
    const angles = anglesOf(fit.rotation);
    expect(angles.roll).toBeCloseTo(0.5, 5);
    expect(angles.yaw).toBeCloseTo(-0.4, 5);
    expect(angles.pitch).toBeCloseTo(0.2, 5);
  });
});
