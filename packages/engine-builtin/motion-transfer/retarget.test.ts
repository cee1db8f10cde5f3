import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { middleGap, shapeLips } from '../animate/lips.ts';
import type { Portrait } from '../animate/portrait.ts';
import { preparePortrait } from '../animate/prepare.ts';
import { setSmile, smileOf } from '../animate/smile.ts';
import { DriverReference, type Motion } from './measure.ts';
import { type MouthScale, measureMouth } from './mouth-scale.ts';
import { neutralOf, Retargeter } from './retarget.ts';

let portrait: Portrait;
let mouth: MouthScale;
let still: Motion;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const { picture, face } = await subjectOf(finder, ASTRONAUT, 0, 480);
  portrait = preparePortrait(picture, face);
  mouth = await measureMouth(portrait, face, finder, () => undefined);
  const driver = (await subjectOf(finder, ADMIRAL, 0, 480)).face.points;
  still = new DriverReference(driver).measure(driver);
});

/** Returns the commanded opening of a portrait's lips after the driver's had this opening for a second. */
function told(open: number): number {
  const retargeter = new Retargeter(portrait, neutralOf([still]), mouth);
  const offsets = shapeLips(still.lips, { open, spread: 0, round: 0 });
  const lips = still.lips.map((value, i) => value + (offsets[i] as number));
  let pose = retargeter.pose(still, 0);
  for (let i = 1; i <= 25; i++) pose = retargeter.pose(open === 0 ? still : { ...still, lips }, i * 40_000);
  const moved = pose.expression.lips as Float32Array;
  return middleGap(portrait.rig.lips.map((value, i) => value + (moved[i] as number)));
}

describe('a mouth put onto another face', () => {
  it('is closed where the driver closes it, though the mesh sees this portrait’s as a little open', () => {
    expect(mouth.closed).toBeGreaterThan(middleGap(still.lips) + 0.01);
    expect(told(0)).toBeLessThan(0.005);
  });

  it('opens with the driver’s from the beginning, and as far', () => {
    const gaps = [0.05, 0.1, 0.2, 0.3].map(told);
    expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
    // Less than the mesh measures for a closed mouth here, and yet open.
    expect(gaps[0]).toBeGreaterThan(0.01);
    expect(gaps[0]).toBeLessThan(0.08);
    expect(gaps[3]).toBeGreaterThan(0.22);
    expect(gaps[3]).toBeLessThan(0.4);
  });
});

describe('a smile put onto a smiling face', () => {
  /** Returns the driver's lips in a smile that is wider than at rest. */
  function smiling(wider: number): Motion {
    const offsets = new Float32Array(still.lips.length);
    const { width, lift } = smileOf(still.lips);
    setSmile(still.lips, offsets, { width: width + wider, lift: lift + 0.3 * wider });
    return { ...still, lips: still.lips.map((value, i) => value + (offsets[i] as number)) };
  }

  /** Returns the portrait's smile after the driver smiled for a second. @param first the clip's first frame */
  function shown(first: Motion, then: Motion) {
    const retargeter = new Retargeter(portrait, neutralOf([first]), mouth);
    let pose = retargeter.pose(first, 0);
    for (let i = 1; i <= 25; i++) pose = retargeter.pose(then, i * 40_000);
    const moved = pose.expression.lips as Float32Array;
    return smileOf(portrait.rig.lips.map((value, i) => value + (moved[i] as number)));
  }

  it('is as wide as the wider of both, and never their sum', () => {
    const own = smileOf(portrait.rig.lips);
    for (const wider of [0.1, 0.2, 0.3]) {
      const driver = smiling(wider);
      const { width, lift } = shown(still, driver);
      expect(width).toBeLessThan(Math.max(own.width, smileOf(driver.lips).width) + 0.01);
      expect(width).toBeGreaterThan(own.width - 0.01);
      // Closing the mouth takes the upper lip down a little.
      expect(lift).toBeLessThan(Math.max(own.lift, smileOf(driver.lips).lift) + 0.03);
    }
  });

  it('is nearly the same when the clip begins in the smile', () => {
    const driver = smiling(0.2);
    const [whole, cut] = [shown(still, driver), shown(driver, driver)];
    expect(Math.abs(whole.width - cut.width)).toBeLessThan(0.06);
    expect(Math.abs(whole.lift - cut.lift)).toBeLessThan(0.06);
  });

  it('does not pinch the mouth when the driver stops to smile', () => {
    const own = smileOf(portrait.rig.lips);
    const least = Math.min(own.width, smileOf(still.lips).width);
    expect(shown(smiling(0.3), still).width).toBeGreaterThan(0.97 * least);
  });
});

describe('a head on a picture that is cut close to it', () => {
  /** Returns the portrait's position after the driver was displaced by this for a second. */
  function gone(of: Portrait, by: Partial<Motion>): { dx: number; dy: number; scale: number } {
    const retargeter = new Retargeter(of, neutralOf([still]), mouth);
    retargeter.pose(still, 0);
    let pose = retargeter.pose(still, 40_000);
    for (let i = 2; i <= 50; i++) pose = retargeter.pose({ ...still, ...by }, i * 40_000);
    return pose;
  }

  it('does not leave the edge that cuts it, and moves freely elsewhere', () => {
    const right = Math.max(...Array.from({ length: 468 }, (_, i) => portrait.shape.rest[i * 3] as number));
    const cut = { ...portrait, width: Math.ceil(right + 2) };
    expect(gone(portrait, { dx: -0.4 }).dx).toBeLessThan(-0.33);
    expect(gone(cut, { dx: -0.4 }).dx).toBeGreaterThan(-0.07);
    expect(gone(cut, { dx: 0.4 }).dx).toBeGreaterThan(0.33);
    expect(gone(cut, { dy: -0.4 }).dy).toBeLessThan(-0.33);
    expect(gone(portrait, { scale: 0.8 }).scale).toBeLessThan(0.85);
    expect(gone(cut, { scale: 0.8 }).scale).toBeGreaterThan(0.96);
  });
});
