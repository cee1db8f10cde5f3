import { type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { middleGap, shapeLips } from '../animate/lips.ts';
import { drawPortrait, type Portrait, type Pose, REST } from '../animate/portrait.ts';
import { preparePortrait } from '../animate/prepare.ts';
import { DriverMotion } from './driver-motion.ts';
import { refitFace } from './face-tracker.ts';
import { type MouthScale, measureMouth } from './mouth-scale.ts';
import { Retargeter } from './retarget.ts';

let finder: FaceFinder;
let driver: Subject;
let drawn: Portrait;
let still: Portrait;
let mouth: MouthScale;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  driver = await subjectOf(finder, ADMIRAL, 0, 480);
  drawn = preparePortrait(driver.picture, driver.face);
  const { picture, face } = await subjectOf(finder, ASTRONAUT, 0, 480);
  still = preparePortrait(picture, face);
  mouth = await measureMouth(still, face, finder, () => undefined);
});

/** Returns the driver's mesh in an expression. */
async function meshOf(open: number, eyes: number): Promise<Float32Array> {
  const lips = shapeLips(drawn.rig.lips, { open, spread: 0, round: 0 });
  const data = drawPortrait(drawn, { ...REST, expression: { lips, eyes: [eyes, eyes] } });
  const frame = { width: drawn.width, height: drawn.height, data };
  const near = await refitFace(finder, frame, driver.face, 'once');
  return (await refitFace(finder, frame, near, 'both-ways')).points;
}

/** Returns the still's pose at the end of a clip that begins so and goes on at rest. */
function poseAfter(beginning: Float32Array, rest: Float32Array): Pose {
  const frames = Array.from({ length: 75 }, (_, i) => (i < 25 ? beginning : rest));
  const motion = new DriverMotion(frames);
  const retargeter = new Retargeter(still, motion.neutral, mouth);
  return frames.map((points, i) => retargeter.pose(motion.measure(points), i * 40_000)).at(-1) as Pose;
}

describe('a driver’s clip', () => {
  it.each([
    ['shut eyes', 0, 0],
    ['an open mouth', 0.3, 1],
    ['a blink within a word', 0.2, 0],
  ])('ends as a rested one does when it begins with %s', async (_, open, eyes) => {
    const rest = await meshOf(0, 1);
    const [usual, after] = [poseAfter(rest, rest), poseAfter(await meshOf(open, eyes), rest)];
    for (const side of [0, 1] as const) {
      expect(after.expression.eyes?.[side]).toBeCloseTo(usual.expression.eyes?.[side] as number, 1);
      expect(after.expression.brows?.[side]).toBeCloseTo(usual.expression.brows?.[side] as number, 1);
    }
    const lips = after.expression.lips as Float32Array;
    const far = lips.map((value, i) => Math.abs(value - (usual.expression.lips?.[i] as number)));
    expect(Math.max(...far)).toBeLessThan(0.02);
    for (const angle of ['roll', 'yaw', 'pitch'] as const) expect(Math.abs(after[angle])).toBeLessThan(0.06);
  });

  it('may have an open mouth for half of it, and shut eyes', async () => {
    const [rest, open] = [await meshOf(0, 1), await meshOf(0.25, 0)];
    const frames = Array.from({ length: 60 }, (_, i) => (i < 6 || i >= 33 ? rest : open));
    const motion = new DriverMotion(frames);
    const retargeter = new Retargeter(still, motion.neutral, mouth);
    const pose = frames.slice(0, 33).map((points, i) => retargeter.pose(motion.measure(points), i * 40_000));
    const { lips, eyes } = (pose.at(-1) as Pose).expression;
    expect(middleGap(still.rig.lips.map((value, i) => value + (lips?.[i] as number)))).toBeGreaterThan(0.1);
    expect(eyes?.[0]).toBeLessThan(0.3);
  });
});
