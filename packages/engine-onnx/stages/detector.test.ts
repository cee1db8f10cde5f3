import type { Picture } from '@semblance/engine-api/picture';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import {
  type GivenFace,
  tinyAnchored,
  tinyYoloface,
  tinyYunet,
} from '@semblance/testkit/engine-onnx/tiny-detectors';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { detectFaces, type FoundFace } from './detector.ts';
import { Models, type OpenModel } from './models.ts';

const rig = new ModelDirRig();
const pools: SessionPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(() => rig.close());

async function detector(contract: string, bytes: Uint8Array, options = {}): Promise<OpenModel> {
  const { models, faults } = await openModelDir(await rig.make([{ contract, bytes, options }]));
  expect(faults).toEqual([]);
  const { pool } = await SessionPool.open(
    { models, providers: ['cpu'], devices: [0], threads: 1 },
    AbortSignal.timeout(30_000),
  );
  pools.push(pool);
  return new Models(pool, models).need('detector');
}

function face(x: number, y: number, side: number, score: number): GivenFace {
  const five = [
    [0.3, 0.4],
    [0.7, 0.4],
    [0.5, 0.6],
    [0.35, 0.8],
    [0.65, 0.8],
  ].map(([u = 0, v = 0]) => ({ x: x + u * side, y: y + v * side * 1.25 }));
  return { x, y, width: side, height: side * 1.25, score, five };
}

function grey(width: number, height: number): Picture {
  return { width, height, channels: 3, data: new Uint8Array(width * height * 3).fill(128) };
}

const signal = new AbortController().signal;

/** Compares found faces with the given ones, scaled and moved to the picture, in any order. */
function expectFaces(found: readonly FoundFace[], given: readonly GivenFace[], zoom: number): void {
  expect(found).toHaveLength(given.length);
  for (const wanted of given) {
    const match = found.find(({ x }) => Math.abs(x - wanted.x * zoom) < 0.5);
    expect(match, `face at ${wanted.x}`).toBeDefined();
    for (const key of ['y', 'width', 'height'] as const) {
      expect(match?.[key]).toBeCloseTo(wanted[key] * zoom, 1);
    }
    for (const [i, point] of wanted.five.entries()) {
      expect(match?.five[i]?.x).toBeCloseTo(point.x * zoom, 1);
      expect(match?.five[i]?.y).toBeCloseTo(point.y * zoom, 1);
    }
  }
}

// One face per stride of the anchored detectors: small, middle, large.
const FACES = [face(33, 41, 40, 0.81), face(250, 120, 90, 0.92), face(400, 300, 160, 0.99)];

describe.each([
  ['scrfd_2.5g', (faces: readonly GivenFace[]) => tinyAnchored(faces)],
  ['retinaface_10g', (faces: readonly GivenFace[]) => tinyAnchored(faces, { batch: true })],
  ['yoloface_8n', (faces: readonly GivenFace[]) => tinyYoloface(faces)],
  ['yunet_2023_mar', (faces: readonly GivenFace[]) => tinyYunet(faces)],
] as const)('%s', (contract, make) => {
  it('gives faces where the network says they are', async () => {
    const model = await detector(contract, make(FACES));
    expectFaces(await detectFaces(model, grey(640, 600), signal), FACES, 1);
  });

  it('scales them back to a larger picture', async () => {
    const model = await detector(contract, make(FACES));
    expectFaces(await detectFaces(model, grey(1600, 1200), signal), FACES, 2.5);
  });

  it('keeps the better of two that overlap, and none below the score', async () => {
    const weak = face(40, 400, 60, 0.6);
    const given = [FACES[0], face(36, 44, 42, 0.9), weak].filter((each) => each !== undefined);
    const model = await detector(contract, make(given), { score: 0.7 });
    const found = await detectFaces(model, grey(640, 640), signal);
    expect(found.map(({ score }) => score)).toEqual([expect.closeTo(0.9, 5)]);
  });

  it('fails when a score, or the place of a face, is no number, and not for what is no face', async () => {
    const place = face(400, 300, 160, -Infinity);
    const nowhere = { ...place, five: place.five.map(({ y }) => ({ x: Infinity, y })) };
    const model = await detector(contract, make([FACES[0] as GivenFace, nowhere]));
    expect(await detectFaces(model, grey(640, 640), signal)).toHaveLength(1);
    for (const broken of [
      { ...nowhere, score: Number.NaN },
      { ...nowhere, score: 0.9 },
    ]) {
      const bad = await detector(contract, make([broken]));
      await expect(detectFaces(bad, grey(640, 640), signal)).rejects.toMatchObject({
        code: 'processing_failed',
        message: `The model ${contract} gave values that are not finite numbers.`,
      });
    }
  });
});

it('looks closer when it sees nothing in the whole', async () => {
  // The model detects a face of 96 pixels around a bright field of 32, at full contrast only.
  const graph = new GraphBuilder();
  const input = graph.input('input', [1, 3, 640, 640]);
  const across = 640 / 32;
  const pooled = graph.op('AveragePool', [input], { kernel_shape: [32, 32], strides: [32, 32] });
  const first = graph.op('Slice', [pooled, graph.integers([0]), graph.integers([1]), graph.integers([1])]);
  const scores = graph.op('Add', [graph.op('Mul', [first, graph.weight([4], [])]), graph.weight([-3.1], [])]);
  const one = graph.op('Reshape', [scores, graph.integers([-1, 1])]);
  const empty = (count: number, width: number): string =>
    graph.weight(new Float32Array(count * width), [count, width]);
  const counts = [2 * 80 * 80, 2 * 40 * 40, 2 * across * across];
  graph.output(empty(counts[0] ?? 0, 1), 's8', [counts[0] ?? 0, 1]);
  graph.output(empty(counts[1] ?? 0, 1), 's16', [counts[1] ?? 0, 1]);
  // Each cell has two anchors, of which the second never fires.
  const pair = graph.op('Concat', [one, graph.op('Mul', [one, graph.weight([0], [])])], { axis: 1 });
  graph.output(graph.op('Reshape', [pair, graph.integers([-1, 1])]), 's32', [counts[2] ?? 0, 1]);
  for (const [i, count] of counts.entries()) {
    graph.output(graph.weight(new Float32Array(count * 4).fill(1.5), [count, 4]), `b${i}`, [count, 4]);
  }
  for (const [i, count] of counts.entries()) graph.output(empty(count, 10), `p${i}`, [count, 10]);
  const model = await detector('scrfd_2.5g', graph.build());
  const picture = grey(2560, 2560);
  // A bright square of 160 pixels, at a corner of the grid of parts at twice the scale.
  for (let y = 1600; y < 1760; y++) {
    for (let x = 1280; x < 1440; x++) picture.data.fill(255, (y * 2560 + x) * 3, (y * 2560 + x) * 3 + 3);
  }
  const found = await detectFaces(model, picture, signal);
  expect(found.length).toBeGreaterThan(0);
  for (const { x, y, width } of found) {
    expect(x + width / 2).toBeGreaterThan(1240);
    expect(x + width / 2).toBeLessThan(1480);
    expect(y + width / 2).toBeGreaterThan(1560);
    expect(y + width / 2).toBeLessThan(1800);
  }
});

it('stops when it is told to', async () => {
  const model = await detector('yoloface_8n', tinyYoloface([]));
  await expect(detectFaces(model, grey(640, 640), AbortSignal.abort(new Error('enough')))).rejects.toThrow(
    'enough',
  );
});

describe('InsightFace’s files', () => {
  it.each(['det_10g', 'det_500m'])('of the name %s fit', async (contract) => {
    const model = await detector(contract, tinyAnchored(FACES));
    expectFaces(await detectFaces(model, grey(640, 600), signal), FACES, 1);
  });

  const small = [face(33, 41, 40, 0.81), face(180, 120, 60, 0.92)];

  it('work at another size than the one their outputs are declared for', async () => {
    const bytes = tinyAnchored(small, { size: 320, declared: 640 });
    const model = await detector('det_10g', bytes, { size: 320 });
    expectFaces(await detectFaces(model, grey(640, 600), signal), small, 2);
  });

  it('that give other numbers of candidates than the size asks for are refused when they run', async () => {
    const bytes = tinyAnchored(small, { size: 320, declared: 640 });
    await expect(detector('det_10g', bytes)).rejects.toThrow(
      /output "score8": expected float32 or float16 \[12800, 1\] or \[1 or open, 12800, 1\], found \[3200, 1\] when it ran/,
    );
  });
});
