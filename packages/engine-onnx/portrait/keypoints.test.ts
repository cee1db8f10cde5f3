import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { describe, expect, it } from 'vitest';
import { DrivenPose } from './driven-pose.ts';
import {
  absoluteKeyPoints,
  type HeadMotion,
  keyPointsOf,
  relativeKeyPoints,
  rotationOf,
} from './keypoints.ts';

const LEVEL = { pitch: 0, yaw: 0, roll: 0 };

function turned(angles: Partial<typeof LEVEL>, [x, y, z]: readonly [number, number, number]): number[] {
  const m = rotationOf({ ...LEVEL, ...angles });
  return [0, 1, 2].map(
    (i) => (m[i * 3] as number) * x + (m[i * 3 + 1] as number) * y + (m[i * 3 + 2] as number) * z,
  );
}

function motion(seed: number, more: Partial<HeadMotion> = {}): HeadMotion {
  const [pitch = 0, yaw = 0, roll = 0] = noise(3, seed).map((value) => 20 * value);
  return {
    pitch,
    yaw,
    roll,
    scale: 1.2 + 0.01 * (seed % 10),
    translation: noise(3, seed + 1),
    expression: noise(63, seed + 2).map((value) => 0.05 * value),
    points: noise(63, seed + 3),
    ...more,
  };
}

function expectClose(found: ArrayLike<number>, wanted: ArrayLike<number>): void {
  expect(found.length).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++) expect(found[i]).toBeCloseTo(wanted[i] as number, 5);
}

describe('the rotation of a head', () => {
  it('turns about x by pitch, about y by yaw, about z by roll', () => {
    expectClose(turned({ pitch: 90 }, [0, 1, 0]), [0, 0, 1]);
    expectClose(turned({ yaw: 90 }, [0, 0, 1]), [1, 0, 0]);
    expectClose(turned({ roll: 90 }, [1, 0, 0]), [0, 1, 0]);
    const half = Math.SQRT1_2;
    expectClose(turned({ roll: 45 }, [1, 0, 5]), [half, half, 5]);
  });

  it('turns by pitch first and by roll last', () => {
    // y goes to z by pitch, from there to x by yaw, and from there to y by roll.
    expectClose(turned({ pitch: 90, yaw: 90, roll: 90 }, [0, 1, 0]), [0, 1, 0]);
    expectClose(turned({ pitch: 90, yaw: 90 }, [0, 1, 0]), [1, 0, 0]);
    expectClose(turned({ yaw: 90, roll: 90 }, [1, 0, 0]), [0, 0, -1]);
  });
});

describe('key points', () => {
  it('are scaled with the expression, then shifted, but not in depth', () => {
    const points = new Float32Array(63);
    points.set([0.5, -0.25, 0.125]);
    const expression = new Float32Array(63).fill(0.01);
    const found = keyPointsOf({
      ...LEVEL,
      scale: 2,
      points,
      expression,
      translation: Float32Array.of(0.3, 0.4, 0.5),
    });
    expectClose(found.slice(0, 6), [1.32, -0.08, 0.27, 0.32, 0.42, 0.02]);
  });

  it('of a still stay where they are in the driver’s first frame, whatever that shows', () => {
    const [still, first] = [motion(41), motion(51)];
    expectClose(relativeKeyPoints(still, first, first), keyPointsOf(still));
  });

  it('of a still that looks like the driver’s first frame go where the driver’s go', () => {
    const [first, now] = [motion(41), motion(61)];
    expectClose(relativeKeyPoints(first, now, first), keyPointsOf({ ...now, points: first.points }));
  });

  it('follow a turn of the driver in the sense in which it turned', () => {
    const level = motion(41, LEVEL);
    const nod = motion(41, { ...LEVEL, roll: 30 });
    const found = relativeKeyPoints(motion(71, LEVEL), nod, level);
    expectClose(found, keyPointsOf(motion(71, { ...LEVEL, roll: 30 })));
  });

  it('keep the shape of the still’s face where the driver’s motion is taken as it is', () => {
    const [still, driver] = [motion(41), motion(61)];
    const found = absoluteKeyPoints(still, driver);
    const own = keyPointsOf({
      ...driver,
      scale: still.scale,
      points: still.points,
      expression: still.expression,
    });
    const whole = keyPointsOf({ ...driver, scale: still.scale, points: still.points });
    for (const point of [0, 7, 10])
      expectClose(found.slice(point * 3, point * 3 + 3), own.slice(point * 3, point * 3 + 3));
    for (const point of [1, 2, 6, 11, 20]) {
      expectClose(found.slice(point * 3, point * 3 + 3), whole.slice(point * 3, point * 3 + 3));
    }
    expectClose(found.slice(9, 12), [own[9], whole[10], own[11]] as number[]);
    expectClose(found.slice(27, 30), [own[27], whole[28], whole[29]] as number[]);
  });
});

describe('a still whose driver is lost', () => {
  const [still, first, later] = [motion(41), motion(51), motion(61)];
  const rest = keyPointsOf(still);
  const far = relativeKeyPoints(still, later, first);
  const between = (share: number): number[] =>
    Array.from(far, (value, i) => value + ((rest[i] as number) - value) * share);

  it('holds, then goes back to rest without a jump, and on from there', () => {
    const pose = new DrivenPose(still, true);
    expectClose(pose.next(undefined, 0), rest);
    expectClose(pose.next(first, 100_000), rest);
    expectClose(pose.next(later, 200_000), far);
    expectClose(pose.next(undefined, 300_000), far);
    expectClose(pose.next(undefined, 800_000), far);
    expectClose(pose.next(undefined, 1_200_000), between(0.5));
    expectClose(pose.next(undefined, 1_600_000), rest);
    expectClose(pose.next(undefined, 9_000_000), rest);
    expectClose(pose.next(later, 9_100_000), rest);
    expectClose(pose.next(later, 9_300_000), between(0.5));
    expectClose(pose.next(later, 9_500_000), far);
  });
});
