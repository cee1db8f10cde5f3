import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { PARSER_CLASSES } from './class-graph.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());
const SIDE = 512;
const PIXELS = SIDE * SIDE;

/** Runs a parser that gives these values for every picture. */
async function classesOf(values: Float32Array, type: 'float32' | 'float16'): Promise<Float32Array> {
  const graph = new GraphBuilder();
  graph.input('input', [1, 3, SIDE, SIDE]);
  const given = graph.weight(values, [1, PARSER_CLASSES, SIDE, SIDE]);
  const last = type === 'float16' ? graph.op('Cast', [given], { to: 10 }) : given;
  graph.output(last, 'logits', [1, PARSER_CLASSES, SIDE, SIDE], type);
  const directory = await rig.make([{ contract: 'bisenet_resnet_18', bytes: graph.build() }]);
  const { models, faults } = await openModelDir(directory);
  expect(faults).toEqual([]);
  const options = { models, providers: ['cpu'] as const, devices: [0], threads: 1 };
  const { pool } = await SessionPool.open(options, AbortSignal.timeout(30_000));
  try {
    const input = { data: new Float32Array(3 * PIXELS), dims: [1, 3, SIDE, SIDE] };
    const { output } = await pool.run('bisenet_resnet_18', { input });
    expect(output?.dims).toEqual([1, 1, SIDE, SIDE]);
    return output?.data ?? new Float32Array();
  } finally {
    await pool.close();
  }
}

/** Returns the class with the largest value of each pixel, the first of equal ones. */
function largest(values: Float32Array): Float32Array {
  return Float32Array.from({ length: PIXELS }, (_, i) => {
    let best = 0;
    for (let c = 1; c < PARSER_CLASSES; c++)
      if ((values[c * PIXELS + i] as number) > (values[best * PIXELS + i] as number)) best = c;
    return best;
  });
}

it.each(['float32', 'float16'] as const)('the device says the class of each pixel, from %s', async (type) => {
  // Steps of a sixteenth are exact in both types, and many pixels have equal largest values.
  const values = noise(PARSER_CLASSES * PIXELS, 21).map((value) => Math.round(value * 16) / 16);
  const classes = await classesOf(values, type);
  expect(Buffer.compare(Buffer.from(classes.buffer), Buffer.from(largest(values).buffer))).toBe(0);
});

it.each([Number.NaN, Infinity, -Infinity])(
  'a pixel with the value %d in one class has none',
  async (value) => {
    const values = new Float32Array(PARSER_CLASSES * PIXELS);
    values[7 * PIXELS + 1000] = value;
    const classes = await classesOf(values, 'float32');
    expect(classes[1000]).toBeNaN();
    expect(classes.filter((found) => found !== 0)).toHaveLength(1);
  },
);
