import type { Picture } from '@semblance/engine-api/picture';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  referenceColours,
  referenceMotion,
  referenceRest,
} from '@semblance/testkit/engine-onnx/portrait-reference';
import { ARCFACE_128 } from '@semblance/testkit/engine-onnx/swap-reference';
import { tinyLivePortrait } from '@semblance/testkit/engine-onnx/tiny-live-portrait';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { cropRgb } from '@semblance/vision/picture';
import { afterAll, afterEach, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { Models, StageLog } from '../stages/models.ts';
import { restoreExpression, seeExpression } from './expression.ts';
import { LivePortrait } from './live-portrait.ts';

const rig = new ModelDirRig();
let pool: SessionPool | undefined;
afterEach(() => pool?.close());
afterAll(() => rig.close());

/** Five points whose crop is a picture of 256² pixels itself. */
const FIVE = ARCFACE_128.map(([x, y]) => ({ x: 256 * x, y: 256 * y }));

/** Returns 256² pixels of 4 × 4 even fields. */
function fields(seed: number): Picture {
  const values = noise(48, seed).map((value) => Math.round(127.5 + 120 * value));
  const data = Uint8Array.from({ length: 256 * 256 * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % 256, Math.floor(i / 768)];
    return values[(Math.floor(y / 64) * 4 + Math.floor(x / 64)) * 3 + (i % 3)] as number;
  });
  return { width: 256, height: 256, channels: 3, data };
}

it.each([0, 0.5, 1])(
  'takes a share of %d of the face’s own expression, and keeps its shape and pose',
  async (share) => {
    const { models, faults } = await openModelDir(await rig.make(tinyLivePortrait()));
    expect(faults).toEqual([]);
    const opened = await SessionPool.open(
      { models, providers: ['cpu'], devices: [0], threads: 1 },
      AbortSignal.timeout(30_000),
    );
    pool = opened.pool;
    const log = new StageLog();
    const portrait = new LivePortrait(new Models(pool, models), log, new AbortController().signal);
    const [before, swapped] = [fields(41), fields(42)];
    const own = await seeExpression(portrait, before, FIVE);
    const { transform, crop } = await restoreExpression(portrait, swapped, FIVE, own, share);
    expect(log.makers).not.toHaveProperty('stitcher');
    expect([crop.width, transform.scale]).toEqual([512, expect.closeTo(0.5, 3)]);
    const [was, is] = [before, swapped].map((picture) =>
      referenceMotion(cropRgb(picture, { scale: 1, angle: 0, originX: 0, originY: 0 }, 256, 256)),
    );
    if (!was || !is) throw new Error('two motions');
    // FaceFusion keeps the key points 0, 4, 5, 8 and 9 of the swapped face.
    const expression = is.expression.map((point, i) =>
      [0, 4, 5, 8, 9].includes(i)
        ? point
        : point.map((value, k) => share * (was.expression[i]?.[k] as number) + (1 - share) * value),
    );
    const colours = referenceColours(referenceRest(is), referenceRest({ ...is, expression }));
    for (let field = 0; field < 16; field++) {
      const [x, y] = [(field % 4) * 128 + 40, Math.floor(field / 4) * 128 + 72];
      for (let c = 0; c < 3; c++) {
        const under = (swapped.data[((y / 2) * 256 + x / 2) * 3 + c] as number) / 255;
        const wanted = 127.5 * (under + (colours[c * 16 + field] as number));
        expect(Math.abs((crop.data[(y * 512 + x) * 3 + c] as number) - wanted)).toBeLessThan(1);
      }
    }
  },
);
