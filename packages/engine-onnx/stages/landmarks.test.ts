import type { Picture } from '@semblance/engine-api/picture';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tiny2dfan4 } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, afterEach, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import type { FoundFace } from './detector.ts';
import { refineFive } from './landmarks.ts';
import { Models, type OpenModel } from './models.ts';

const rig = new ModelDirRig();
const pools: SessionPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(() => rig.close());

/**
 * Points on the network's grid of 64: eyes around (24, 26) and (40, 26), nose (32, 36), mouth (27, 45) to (37, 45).
 */
const POINTS = Array.from({ length: 68 }, (_, i): [number, number] => {
  if (i >= 36 && i < 42) return [24 + (i % 2 ? 1 : -1), 26];
  if (i >= 42 && i < 48) return [40, 26 + (i % 2 ? 2 : -2)];
  if (i === 30) return [32, 36];
  if (i === 48) return [27, 45];
  return i === 54 ? [37, 45] : [1, 60];
});
const FIVE = [
  [24, 26],
  [40, 26],
  [32, 36],
  [27, 45],
  [37, 45],
] as const;

async function landmarks(peak: number, options = {}): Promise<OpenModel> {
  const given = { contract: '2dfan4', bytes: tiny2dfan4(POINTS, peak), options };
  const { models } = await openModelDir(await rig.make([given]));
  const { pool } = await SessionPool.open(
    { models, providers: ['cpu'], devices: [0], threads: 1 },
    AbortSignal.timeout(30_000),
  );
  pools.push(pool);
  return new Models(pool, models).need('landmarks');
}

const picture: Picture = {
  width: 600,
  height: 500,
  channels: 3,
  data: new Uint8Array(600 * 500 * 3).fill(90),
};
/** Returns a face of 156 × 195 pixels around (300, 250), with tilted eyes. */
function face(tilt: number): FoundFace {
  const eye = (side: number) => ({
    x: 300 + side * 40 * Math.cos(tilt),
    y: 230 + side * 40 * Math.sin(tilt),
  });
  const rest = { x: 300, y: 280 };
  return { score: 1, x: 222, y: 152.5, width: 156, height: 195, five: [eye(-1), eye(1), rest, rest, rest] };
}

it.each([0, 0.3])('gives the points of the grid in the picture, at a tilt of %f', async (tilt) => {
  const five = await refineFive(await landmarks(0.9), picture, face(tilt), new AbortController().signal);
  // The 195 pixels of the box take 195 of the crop's 256 pixels, and both have the same middle, so a grid step is 4
  // pixels.
  for (const [i, [u, v]] of FIVE.entries()) {
    const [dx, dy] = [(u - 32) * 4, (v - 32) * 4];
    expect(five?.[i]?.x).toBeCloseTo(300 + dx * Math.cos(tilt) - dy * Math.sin(tilt), 2);
    expect(five?.[i]?.y).toBeCloseTo(250 + dx * Math.sin(tilt) + dy * Math.cos(tilt), 2);
  }
});

it('gives none when the network is less sure than the options ask', async () => {
  const { signal } = new AbortController();
  expect(await refineFive(await landmarks(0.4), picture, face(0), signal)).toBeUndefined();
  expect(await refineFive(await landmarks(0.4, { score: 0.4 }), picture, face(0), signal)).toHaveLength(5);
});
