import type { Picture } from '@semblance/engine-api/picture';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  type ReferenceMotion,
  referenceAbsolute,
  referenceColours,
  referenceMotion,
  referenceRelative,
  referenceRest,
  referenceStitch,
} from '@semblance/testkit/engine-onnx/portrait-reference';
import {
  EYE_WEIGHTS,
  LIP_WEIGHTS,
  tinyLivePortrait,
  tinyRetargeters,
} from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { cropRgb, type RgbImage } from '@semblance/vision/picture';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { Models, StageLog } from '../stages/models.ts';
import { DrivenPose } from './driven-pose.ts';
import type { HeadMotion } from './keypoints.ts';
import { LivePortrait } from './live-portrait.ts';

const rig = new ModelDirRig();
const pools: SessionPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(() => rig.close());

const WHOLE = { scale: 1, angle: 0, originX: 0, originY: 0 };

/** Returns 256² pixels of large blots in all colours. */
function blots(seed: number): Picture {
  const values = noise(3 * 64, seed).map((value) => 127.5 + 120 * value);
  const data = Uint8Array.from(
    { length: 256 * 256 * 3 },
    (_, i) =>
      values[
        (Math.floor(i / 3 / 256 / 32) * 8 + Math.floor((Math.floor(i / 3) % 256) / 32)) * 3 + (i % 3)
      ] as number,
  );
  return { width: 256, height: 256, channels: 3, data };
}

function look(picture: Picture): RgbImage {
  return cropRgb(picture, WHOLE, 256, 256);
}

async function open(given: readonly GivenModel[]) {
  const { models, faults } = await openModelDir(await rig.make(given));
  expect(faults).toEqual([]);
  const { pool } = await SessionPool.open(
    { models, providers: ['cpu'], devices: [0], threads: 1 },
    AbortSignal.timeout(30_000),
  );
  pools.push(pool);
  const log = new StageLog();
  const portrait = new LivePortrait(new Models(pool, models), log, new AbortController().signal);
  return { pool, log, portrait };
}

function expectClose(found: ArrayLike<number>, wanted: ArrayLike<number>, within: number): void {
  expect(found.length).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++)
    expect(Math.abs((found[i] as number) - (wanted[i] as number)), `value ${i}`).toBeLessThan(within);
}

function expectMotion(found: HeadMotion, wanted: ReferenceMotion): void {
  // Degrees, from means over thousands of pixels in single precision.
  expectClose([found.pitch, found.yaw, found.roll], wanted.angles, 0.01);
  expectClose([found.scale, ...found.translation], [wanted.scale, ...wanted.translation], 1e-4);
  expectClose(found.expression, wanted.expression.flat(), 1e-4);
  expectClose(found.points, wanted.points.flat(), 1e-4);
}

const [STILL, FIRST, LATER] = [blots(31), blots(32), blots(33)];

describe('LivePortrait', () => {
  it.each([
    ['one by one', 1],
    ['in batches', 'n'],
  ] as const)('draws what its authors describe, %s', async (_, batch) => {
    const { portrait, pool, log } = await open(tinyLivePortrait(batch));
    const still = await portrait.seeStill(STILL, WHOLE, undefined);
    const [own, first, later] = [STILL, FIRST, LATER].map((picture) => referenceMotion(look(picture)));
    if (!own || !first || !later) throw new Error('three motions');
    expectMotion(still.motion, own);
    expectClose(still.points, referenceRest(own), 1e-4);
    const seen = await Promise.all([FIRST, LATER].map((picture) => portrait.seeMotion(picture, WHOLE)));
    expectMotion(seen[1] as HeadMotion, later);
    const pose = new DrivenPose(still.motion, portrait.relative);
    const wanted = seen.map((motion, i) => pose.next(motion, i * 40_000));
    const rest = referenceRest(own);
    expectClose(wanted[0] as Float32Array, rest, 1e-4);
    expectClose(wanted[1] as Float32Array, referenceRelative(own, later, first), 1e-4);
    const before = { ...pool.counts };
    const drawn = await Promise.all(
      // These are more than fit into one run together with the running requests.
      [...wanted, ...wanted].map((points) => portrait.draw(still, points as Float32Array<ArrayBuffer>)),
    );
    const [runs, requests] = [pool.counts.runs - before.runs, pool.counts.requests - before.requests];
    expect(requests).toBe(8);
    if (batch === 'n') expect(runs).toBeLessThan(8);
    else expect(runs).toBe(8);
    const { data: input } = look(STILL);
    for (const [i, image] of drawn.entries()) {
      expect([image.width, image.height]).toEqual([512, 512]);
      const to = i % 2 === 0 ? rest : referenceRelative(own, later, first);
      const colours = referenceColours(rest, referenceStitch(rest, to));
      for (let field = 0; field < 16; field++) {
        const [x, y] = [(field % 4) * 128 + 40, Math.floor(field / 4) * 128 + 72];
        for (let c = 0; c < 3; c++) {
          const under = (input[((y / 2) * 256 + x / 2) * 3 + c] as number) / 255;
          const value = 127.5 * (under + (colours[c * 16 + field] as number));
          expect(Math.abs((image.data[(y * 512 + x) * 3 + c] as number) - value)).toBeLessThan(0.1);
        }
      }
    }
    expect(log.makers).toEqual({
      motion: 'onnx live_portrait_motion_extractor',
      features: 'onnx live_portrait_feature_extractor',
      stitcher: 'onnx live_portrait_stitcher',
      generator: 'onnx live_portrait_generator',
    });
  });

  it('takes the driver’s motion as it is where told to, with eyes and lips as far open as its own', async () => {
    const { portrait } = await open([...tinyLivePortrait(1, { relative: 0 }), ...tinyRetargeters()]);
    const [own, later] = [STILL, LATER].map((picture) => referenceMotion(look(picture)));
    if (!own || !later) throw new Error('two motions');
    const still = await portrait.seeStill(STILL, WHOLE, { eyes: [0.31, 0.33], lips: 0.2 });
    expect(still.closing).toBeUndefined();
    const offset = await portrait.retarget(still, { eyes: [0.12, 0.4], lips: 0.05 });
    const rest = referenceRest(own);
    const times = (input: readonly number[], weights: Float32Array): number[] =>
      Array.from({ length: 63 }, (_, k) =>
        input.reduce((sum, value, i) => sum + value * (weights[i * 63 + k] as number), 0),
      );
    const eyes = times([...rest, 0.31, 0.33, 0.12], EYE_WEIGHTS);
    const lips = times([...rest, 0.2, 0.05], LIP_WEIGHTS);
    expectClose(
      offset ?? [],
      eyes.map((value, i) => value + (lips[i] as number)),
      1e-4,
    );
    const motion = await portrait.seeMotion(LATER, WHOLE);
    const wanted = new DrivenPose(still.motion, portrait.relative).next(motion, 0, offset);
    expectClose(
      wanted,
      referenceAbsolute(own, later).map((value, i) => value + (offset?.[i] as number)),
      1e-4,
    );
  });

  it('closes the lips of a still first where it has a retargeter for them, as far as told', async () => {
    const { portrait, log } = await open([...tinyLivePortrait(), ...tinyRetargeters(0.5)]);
    const rest = referenceRest(referenceMotion(look(STILL)));
    const closed = await portrait.seeStill(STILL, WHOLE, { eyes: [0.3, 0.3], lips: 0.02 });
    expect(closed.closing).toBeUndefined();
    const left = await open([...tinyLivePortrait(), ...tinyRetargeters()]);
    const openLips = { eyes: [0.3, 0.3], lips: 0.2 } as const;
    expect((await left.portrait.seeStill(STILL, WHOLE, openLips)).closing).toBeUndefined();
    const apart = await portrait.seeStill(STILL, WHOLE, { eyes: [0.3, 0.3], lips: 0.2 });
    const delta = Array.from(
      { length: 63 },
      (_, k) =>
        0.5 *
        [...rest, 0.2, 0].reduce((sum, value, i) => sum + value * (LIP_WEIGHTS[i * 63 + k] as number), 0),
    );
    expectClose(apart.closing ?? [], delta, 1e-4);
    expect(await portrait.retarget(apart, { eyes: [0, 0], lips: 0 })).toBeUndefined();
    expect(log.makers).toMatchObject({ lip_retargeter: 'onnx live_portrait_lip_retargeter' });
    // The offset is added after the stitcher, which would undo it.
    const drawn = await portrait.draw(apart, apart.points);
    const moved = referenceStitch(rest, rest).map((value, i) => value + (delta[i] as number));
    const colours = referenceColours(rest, moved);
    const under = (look(STILL).data[(100 * 256 + 20) * 3] as number) / 255;
    const found = drawn.data[(200 * 512 + 40) * 3] as number;
    expect(Math.abs(found - 127.5 * (under + (colours[4] as number)))).toBeLessThan(0.1);
    expect(
      Math.abs(found - 127.5 * (under + (referenceColours(rest, referenceStitch(rest, rest))[4] as number))),
    ).toBeGreaterThan(0.5);
  });
});
