import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  COLOUR_SHARE,
  COLOUR_WEIGHTS,
  EMBEDDING_OFFSET,
  EMBEDDING_WEIGHTS,
  LENGTH,
  noise,
  tinyArcface,
  tinyEnhancer,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import type { FloatTensor, Provider } from './protocol.ts';
import { SessionPool } from './session-pool.ts';

const rig = new ModelDirRig();
const opened: SessionPool[] = [];
afterEach(async () => {
  for (const pool of opened.splice(0)) await pool.close();
});
afterAll(() => rig.close());

async function open(models: readonly GivenModel[], providers: readonly Provider[] = ['cpu'], more = {}) {
  const checked = await openModelDir(await rig.make(models));
  expect(checked.faults).toEqual([]);
  const result = await SessionPool.open(
    { models: checked.models, providers, devices: [0], threads: 1, ...more },
    AbortSignal.timeout(30_000),
  );
  opened.push(result.pool);
  return result;
}

const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };

function crop(seed: number): FloatTensor {
  return { data: noise(3 * 112 * 112, seed) as Float32Array<ArrayBuffer>, dims: [1, 3, 112, 112] };
}

/** Returns the answer of the tiny recogniser, computed without it. */
function embedding(data: Float32Array): number[] {
  const means = [0, 1, 2].map((c) => {
    let sum = 0;
    for (let i = 0; i < 112 * 112; i++) sum += data[c * 112 * 112 + i] as number;
    return sum / (112 * 112);
  });
  return Array.from(
    EMBEDDING_OFFSET,
    (offset, i) =>
      offset + means.reduce((sum, mean, c) => sum + mean * (EMBEDDING_WEIGHTS[c * LENGTH + i] as number), 0),
  );
}

function expectClose(found: ArrayLike<number>, wanted: ArrayLike<number>, within: number): void {
  expect(found.length).toBe(wanted.length);
  let worst = 0;
  for (let i = 0; i < wanted.length; i++)
    worst = Math.max(worst, Math.abs((found[i] as number) - (wanted[i] as number)));
  expect(worst).toBeLessThan(within);
}

describe('runs', () => {
  it('give what the model computes', async () => {
    const { pool, runs } = await open([arcface]);
    expect(runs).toEqual([{ model: 'arcface_w600k_r50', provider: 'cpu', shapes: { embedding: [1, 512] } }]);
    const input = crop(5);
    const wanted = embedding(input.data.slice());
    const { embedding: found } = await pool.run('arcface_w600k_r50', { input });
    expect(found?.dims).toEqual([1, 512]);
    expectClose(found?.data ?? [], wanted, 1e-5);
  });

  it('of several requests are one where the contract has a batch, and each gets its own', async () => {
    const { pool } = await open([arcface]);
    const inputs = [1, 2, 3, 4, 5, 6].map(crop);
    const wanted = inputs.map(({ data }) => embedding(data.slice()));
    const results = await Promise.all(inputs.map((input) => pool.run('arcface_w600k_r50', { input })));
    for (const [i, { embedding: found }] of results.entries())
      expectClose(found?.data ?? [], wanted[i] ?? [], 1e-5);
    // The first request runs alone, and the others wait for it.
    expect(pool.counts).toEqual({ runs: 2, requests: 6 });
  });

  it('are never larger than the limit, and not joined without a batch', async () => {
    const bounded = await open([arcface], ['cpu'], { sizes: [1, 2] });
    await Promise.all(
      [1, 2, 3, 4, 5].map((seed) => bounded.pool.run('arcface_w600k_r50', { input: crop(seed) })),
    );
    expect(bounded.pool.counts).toEqual({ runs: 3, requests: 5 });
    const fixed = await open([{ ...arcface, bytes: tinyArcface(1) }]);
    await Promise.all([1, 2, 3].map((seed) => fixed.pool.run('arcface_w600k_r50', { input: crop(seed) })));
    expect(fixed.pool.counts).toEqual({ runs: 3, requests: 3 });
  });

  it.each([
    [
      'cannot be run with two items',
      (graph: GraphBuilder, flat: string) => graph.op('Reshape', [flat, graph.integers([1, 3])]),
      /reshape/i,
    ],
    [
      'gives one item for two',
      (graph: GraphBuilder, flat: string) => graph.op('ReduceMean', [flat], { axes: [0], keepdims: 1 }),
      /output "683" is \[1, 512\], not \[2, 512\]/,
    ],
  ])(
    'are made one by one when a model %s, whatever its file says, and the owner is told',
    async (_, inside, why) => {
      const graph = new GraphBuilder();
      const input = graph.input('input.1', ['batch', 3, 112, 112]);
      const flat = graph.op('Flatten', [graph.op('GlobalAveragePool', [input])], { axis: 1 });
      const product = graph.op('MatMul', [inside(graph, flat), graph.weight(EMBEDDING_WEIGHTS, [3, LENGTH])]);
      const sum = graph.op('Add', [product, graph.weight(EMBEDDING_OFFSET, [LENGTH])]);
      graph.output(sum, '683', ['batch', LENGTH]);
      const { pool, notes, runs } = await open([{ ...arcface, bytes: graph.build() }]);
      expect(notes).toEqual([
        expect.stringMatching(
          /^arcface_w600k_r50 is given one item at a time: its file leaves their number open/,
        ),
      ]);
      expect(notes[0]).toMatch(why);
      expect(runs[0]?.alone).toMatch(why);
      const inputs = [1, 2, 3].map(crop);
      const wanted = inputs.map(({ data }) => embedding(data.slice()));
      const results = await Promise.all(inputs.map((each) => pool.run('arcface_w600k_r50', { input: each })));
      for (const [i, { embedding: found }] of results.entries())
        expectClose(found?.data ?? [], wanted[i] ?? [], 1e-5);
      expect(pool.counts).toEqual({ runs: 3, requests: 3 });
    },
  );

  it.each(['float32', 'float16'] as const)('take and give %s as float32', async (type) => {
    const { pool } = await open([arcface, { contract: 'inswapper_128_fp16', bytes: tinySwapper({ type }) }]);
    const target = noise(3 * 128 * 128, 3).map(Math.abs) as Float32Array<ArrayBuffer>;
    const source = noise(LENGTH, 4).map((value) => value / 13) as Float32Array<ArrayBuffer>;
    const colour = [0, 1, 2].map((c) => {
      let sum = 0;
      for (let i = 0; i < LENGTH; i++) sum += (source[i] as number) * (COLOUR_WEIGHTS[i * 3 + c] as number);
      return 1 / (1 + Math.exp(-sum));
    });
    const wanted = Array.from(
      target,
      (value, i) => value * (1 - COLOUR_SHARE) + (colour[Math.floor(i / 128 ** 2)] as number) * COLOUR_SHARE,
    );
    const { output } = await pool.run('inswapper_128_fp16', {
      target: { data: target.slice(), dims: [1, 3, 128, 128] },
      source: { data: source.slice(), dims: [1, LENGTH] },
    });
    expectClose(output?.data ?? [], wanted, type === 'float16' ? 2e-3 : 1e-5);
  });

  it('feed a weight as float64', async () => {
    const { pool } = await open([{ contract: 'codeformer', bytes: tinyEnhancer(512, 1, 0.25, true) }]);
    const { output } = await pool.run('codeformer', {
      input: { data: new Float32Array(3 * 512 * 512).fill(0.5), dims: [1, 3, 512, 512] },
      weight: { data: Float32Array.of(0.7), dims: [1] },
    });
    expect(output?.data[1000]).toBeCloseTo(0.5 * 0.7 + 0.25, 5);
  });

  it('end at once when cancelled, in the queue or at work, and the next goes on', async () => {
    const { pool } = await open([{ ...arcface, bytes: tinyArcface(1) }]);
    const abort = new AbortController();
    const first = pool.run('arcface_w600k_r50', { input: crop(1) }, abort.signal);
    const second = pool.run('arcface_w600k_r50', { input: crop(2) }, abort.signal);
    const third = pool.run('arcface_w600k_r50', { input: crop(3) });
    abort.abort(new Error('not any more'));
    await expect(first).rejects.toThrow('not any more');
    await expect(second).rejects.toThrow('not any more');
    expect((await third).embedding?.data.length).toBe(512);
    await expect(pool.run('arcface_w600k_r50', { input: crop(4) }, abort.signal)).rejects.toThrow(
      'not any more',
    );
    expect(pool.counts.requests).toBe(2);
  });

  it('fail alone when they cannot be done', async () => {
    const { pool } = await open([arcface]);
    const wrong = { data: new Float32Array(12), dims: [1, 3, 2, 2] };
    await expect(pool.run('arcface_w600k_r50', {})).rejects.toThrow('arcface_w600k_r50 was given no input');
    await expect(pool.run('arcface_w600k_r50', { input: wrong })).rejects.toThrow(
      /arcface_w600k_r50 failed: .*dimension/,
    );
    expect((await pool.run('arcface_w600k_r50', { input: crop(1) })).embedding?.data.length).toBe(512);
  });

  it('fail when the pool is closed', async () => {
    const { pool } = await open([arcface]);
    const running = pool.run('arcface_w600k_r50', { input: crop(1) });
    const closing = pool.close();
    await expect(running).rejects.toThrow('closed');
    await closing;
    await expect(pool.run('arcface_w600k_r50', { input: crop(1) })).rejects.toThrow('closed');
  });
});

describe('opening', () => {
  it('says which provider is missing, and takes the next one that is there', async () => {
    await expect(open([arcface], ['cuda'])).rejects.toThrow(
      /^no execution provider of cuda is available \(cuda: .*\); install what it needs, or add cpu to SEMBLANCE_ONNX_PROVIDERS$/,
    );
    const { runs, notes } = await open([arcface], ['cuda', 'cpu']);
    expect(runs[0]?.provider).toBe('cpu');
    expect(notes).toEqual([expect.stringMatching(/^the execution provider cuda is not available: /)]);
  });

  it('does not take a damaged second model for a missing provider', async () => {
    const graph = new GraphBuilder();
    graph.output(
      graph.op('NoSuchOperation', [graph.input('input', [1, 3, 512, 512])]),
      'output',
      [1, 3, 512, 512],
    );
    const bad = { contract: 'gfpgan_1.4', bytes: graph.build() };
    await expect(open([arcface, bad], ['cuda', 'cpu'])).rejects.toThrow(
      /^gfpgan_1\.4 cannot be loaded \(cpu\): /,
    );
  });

  it('names a model whose sizes turn out wrong when it runs', async () => {
    const graph = new GraphBuilder();
    const input = graph.input('input', [1, 3, 512, 512]);
    const half = graph.op('AveragePool', [input], { kernel_shape: [2, 2], strides: [2, 2] });
    graph.output(half, 'output', [1, 3, 'h', 'w']);
    await expect(open([{ contract: 'gfpgan_1.4', bytes: graph.build() }])).rejects.toThrow(
      'gfpgan_1.4 (gfpgan_1.4.onnx): output "output": expected float32 or float16 [1 or open, 3, 512, 512], found [1, 3, 256, 256] when it ran',
    );
  });

  it('names a model that onnxruntime cannot load', async () => {
    const graph = new GraphBuilder();
    graph.output(
      graph.op('NoSuchOperation', [graph.input('input', [1, 3, 512, 512])]),
      'output',
      [1, 3, 512, 512],
    );
    await expect(open([{ contract: 'gfpgan_1.4', bytes: graph.build() }])).rejects.toThrow(
      /^gfpgan_1\.4 cannot be loaded \(cpu\): .*NoSuchOperation/,
    );
  });

  it('ends when it is told to', async () => {
    const checked = await openModelDir(await rig.make([arcface]));
    const options = { models: checked.models, providers: ['cpu' as const], devices: [0], threads: 1 };
    await expect(SessionPool.open(options, AbortSignal.abort(new Error('ending')))).rejects.toThrow('ending');
    const abort = new AbortController();
    const opening = SessionPool.open(options, abort.signal);
    abort.abort(new Error('ending now'));
    await expect(opening).rejects.toThrow('ending now');
  });
});
