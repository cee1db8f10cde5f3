import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { failingArcface, noise, tinyArcface } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { FIXED_SIZES } from './batch.ts';
import type { FloatTensor } from './protocol.ts';
import { SessionPool } from './session-pool.ts';

const NAME = 'arcface_w600k_r50';
const FULL = 'Failed to allocate memory for requested buffer of size 13111296';

const rig = new ModelDirRig();
const opened: SessionPool[] = [];
afterEach(async () => {
  for (const pool of opened.splice(0)) await pool.close();
});
afterAll(() => rig.close());

async function open(bytes: Uint8Array<ArrayBuffer>, more = {}) {
  const { models, faults } = await openModelDir(await rig.make([{ contract: NAME, bytes }]));
  expect(faults).toEqual([]);
  const result = await SessionPool.open(
    { models, providers: ['cpu'], devices: [0], threads: 1, ...more },
    AbortSignal.timeout(30_000),
  );
  opened.push(result.pool);
  return result;
}

function crop(seed: number): FloatTensor {
  return { data: noise(3 * 112 * 112, seed) as Float32Array<ArrayBuffer>, dims: [1, 3, 112, 112] };
}

/** Returns the first value for each crop. */
const embed = async (pool: SessionPool, seeds: readonly number[]) => {
  const outputs = await Promise.all(seeds.map((seed) => pool.run(NAME, { input: crop(seed) })));
  return outputs.map(({ embedding }) => {
    expect(embedding?.dims).toEqual([1, 512]);
    return embedding?.data[0];
  });
};

describe('sizes of runs', () => {
  it.each([
    // The first request runs alone, and the others wait for it.
    [[1, 2, 3, 4, 5, 6, 7, 8], 2],
    [[1, 2, 3, 4, 5, 6], 3],
    [[1, 2, 3], 3],
  ])('are those that the warm-up ran, and each request gets its own: %j', async (seeds, count) => {
    const { pool, runs, notes } = await open(tinyArcface(), { sizes: FIXED_SIZES });
    expect(notes).toEqual([]);
    expect(runs).toEqual([
      { model: NAME, provider: 'cpu', shapes: { embedding: [1, 512] }, sizes: [1, 4, 8] },
    ]);
    const one = await open(tinyArcface());
    const wanted: (number | undefined)[] = [];
    for (const seed of seeds) wanted.push(...(await embed(one.pool, [seed])));
    const found = await embed(pool, seeds);
    for (const [i, value] of found.entries()) expect(value).toBeCloseTo(wanted[i] ?? Number.NaN, 5);
    expect(pool.counts).toEqual({ runs: count, requests: seeds.length });
  });

  it('are only those for which the device has the memory, and the owner is told', async () => {
    const { pool, runs, notes } = await open(failingArcface('items', FULL), { sizes: FIXED_SIZES });
    expect(runs).toEqual([
      {
        model: NAME,
        provider: 'cpu',
        shapes: { embedding: [1, 512] },
        sizes: [1, 4],
        full: expect.stringContaining(FULL),
      },
    ]);
    expect(notes).toEqual([
      expect.stringMatching(
        /^arcface_w600k_r50 is given at most 4 at a time: with more, the device was full: /,
      ),
    ]);
    await embed(pool, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(pool.counts).toEqual({ runs: 3, requests: 9 });
  });

  it('are one where larger runs fail for a reason of the model', async () => {
    const { runs } = await open(failingArcface('items', 'a name of no meaning'), { sizes: FIXED_SIZES });
    expect(runs[0]?.alone).toContain('a name of no meaning');
    expect(runs[0]).not.toHaveProperty('sizes');
  });

  it('end the warm-up when the device fails at one', async () => {
    const broken = failingArcface('items', 'CUDA failure 719: unspecified launch failure');
    await expect(open(broken, { sizes: FIXED_SIZES })).rejects.toThrow(/CUDA failure 719/);
  });
});

it.each([
  ['full', FULL],
  ['broken', 'CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED'],
])('the pool ends when a run says that its device is %s', async (fault, message) => {
  const ended = Promise.withResolvers<string>();
  const { pool } = await open(failingArcface('bright', message), { onEnd: ended.resolve });
  await embed(pool, [1]);
  const bright = { data: new Float32Array(3 * 112 * 112).fill(1), dims: [1, 3, 112, 112] };
  await expect(pool.run(NAME, { input: bright })).rejects.toThrow(message);
  expect(deviceFaultOf(await ended.promise)).toBe(fault);
});
