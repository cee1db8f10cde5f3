import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openSession } from '@semblance/vision/models/session';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { beforeAll, describe, expect, it } from 'vitest';
import { MODELS, NSFWJS_OUTPUTS, type TfjsModelName, weightsDirectory } from './catalog.ts';
import { nsfwjsFiles } from './nsfwjs.ts';
import { readTfjsModel, type TfjsNode, type TfjsWeight } from './tfjs-model.ts';
import { convertTfjsToOnnx } from './tfjs-to-onnx.ts';

interface TfTensor {
  readonly shape: number[];
  dataSync(): Float32Array;
}
interface TfRuntime {
  env(): { setPlatform(name: string, platform: object): void };
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  tensor(data: Float32Array, shape: number[]): TfTensor;
  loadGraphModel(handler: { load(): Promise<unknown> }): Promise<{
    execute(input: TfTensor, outputs: string[]): TfTensor | TfTensor[];
  }>;
}

let tf: TfRuntime;

beforeAll(async () => {
  tf = await importTfjs();
  await tf.setBackend('cpu');
  await tf.ready();
});

/**
 * The bundle is built for browsers. When it detects Node.js it looks for modules that it does not contain, so
 * Node.js is hidden.
 */
async function importTfjs(): Promise<TfRuntime> {
  const versions = Object.getOwnPropertyDescriptor(process, 'versions');
  if (!versions) throw new Error('process.versions is missing');
  Object.defineProperty(process, 'versions', { ...versions, value: {} });
  try {
    const runtime: TfRuntime = await import(
      pathToFileURL(join(weightsDirectory(), '..', 'dist', 'tfjs.esm.js')).href
    );
    runtime.env().setPlatform('test', {
      now: () => performance.now(),
      encode: (text: string) => new TextEncoder().encode(text),
      decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes),
      isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
    });
    return runtime;
  } finally {
    Object.defineProperty(process, 'versions', versions);
  }
}

/** Runs the original model in its own runtime. */
async function reference(
  name: TfjsModelName,
  data: Float32Array,
  shape: number[],
): Promise<Map<string, Float32Array>> {
  const json = JSON.parse(await readFile(join(weightsDirectory(), `${name}.json`), 'utf8'));
  const weights = await readFile(join(weightsDirectory(), `${name}.bin`));
  return runTfjs(json, weights, MODELS[name].outputs, new Float32Array(data), shape);
}

interface GraphDocument {
  readonly modelTopology: unknown;
  readonly format: unknown;
  readonly signature: unknown;
  readonly weightsManifest: readonly { weights: unknown[] }[];
}

async function runTfjs(
  json: GraphDocument,
  weights: Buffer,
  named: Readonly<Record<string, { readonly name: string }>>,
  data: Float32Array,
  shape: number[],
): Promise<Map<string, Float32Array>> {
  const model = await tf.loadGraphModel({
    load: async () => ({
      modelTopology: json.modelTopology,
      format: json.format,
      signature: json.signature,
      weightSpecs: json.weightsManifest.flatMap((group) => group.weights),
      weightData: weights.buffer.slice(weights.byteOffset, weights.byteOffset + weights.byteLength),
    }),
  });
  const outputs = Object.entries(named);
  const result = model.execute(
    tf.tensor(data, shape),
    outputs.map(([node]) => node),
  );
  const list = Array.isArray(result) ? result : [result];
  return new Map(
    outputs.map(([, output], index) => [output.name, list[index]?.dataSync() ?? new Float32Array()]),
  );
}

/**
 * Returns smooth colour shapes with fine noise, in [low, high]: closer to a picture than noise alone, and equal in
 * every run.
 */
function testPicture(count: number, size: number, low: number, high: number): Float32Array {
  let state = 12345;
  return Float32Array.from({ length: count }, (_, index) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    const pixel = Math.floor(index / 3);
    const wave = Math.sin((pixel % size) / 9 + (index % 3)) * Math.cos(Math.floor(pixel / size) / 13);
    return low + (high - low) * Math.min(1, Math.max(0, 0.5 + 0.4 * wave + (0.1 * state) / 0x7fffffff));
  });
}

const RANGES: Record<TfjsModelName, [number, number]> = {
  blazeface: [-1, 1],
  facemesh: [0, 1],
  faceres: [0, 255],
};

const CONVOLUTION = {
  padding: { s: Buffer.from('SAME').toString('base64') },
  strides: { list: { i: [1, 1, 1, 1] } },
  dilations: { list: { i: [1, 1, 1, 1] } },
};

/** Converts a graph from x to y and runs it on two pixels: one has -2 in all channels, the other 4. */
async function runGraph(
  channels: number,
  outChannels: number,
  steps: readonly { readonly node: TfjsNode; readonly weight: readonly [string, TfjsWeight] }[],
): Promise<{ out: number[] }> {
  const shape = { shape: { dim: [1, 1, 2, channels].map((size) => ({ size })) } };
  const onnx = convertTfjsToOnnx(
    {
      nodes: [
        { name: 'x', op: 'Placeholder', inputs: [], attributes: { shape } },
        ...steps.map(({ node }) => node),
      ],
      weights: new Map(steps.map(({ weight }) => weight)),
    },
    { name: 'graph', outputs: { y: { name: 'out', dims: [1, 1, 2, outChannels] } } },
  );
  const session = await InferenceSession.create(onnx);
  const data = Float32Array.from({ length: 2 * channels }, (_, i) => (i < channels ? -2 : 4));
  const { out } = await session.run({ x_nhwc: new Tensor('float32', data, [1, 1, 2, channels]) });
  await session.release();
  return { out: [...((out as Tensor).data as Float32Array)] };
}

describe('converted networks', () => {
  it('nudity gives what TensorFlow.js gives', async () => {
    const shape = [1, 224, 224, 3];
    const data = testPicture(224 * 224 * 3, 224, 0, 1);
    const { document, weights } = nsfwjsFiles();
    const expected = await runTfjs(document as GraphDocument, weights, NSFWJS_OUTPUTS, data, shape);
    const session = await openSession('nudity');
    const { classes } = await session.run({ input_nhwc: new Tensor('float32', data, shape) });
    const found = classes?.data as Float32Array;
    expect(found).toHaveLength(5);
    for (const [index, share] of found.entries())
      expect(share).toBeCloseTo(expected.get('classes')?.[index] ?? Number.NaN, 4);
  });

  it.each(Object.keys(MODELS) as TfjsModelName[])(
    '%s gives what TensorFlow.js gives',
    async (name) => {
      const session = await openSession(name);
      const meta = session.inputMetadata[0];
      if (!meta?.isTensor) throw new Error('model without a tensor input');
      const shape = meta.shape.map(Number);
      const count = shape.reduce((product, dim) => product * dim, 1);
      const data = testPicture(count, shape[1] ?? 1, ...RANGES[name]);
      const ours = await session.run({ [meta.name]: new Tensor('float32', data, shape) });
      const theirs = await reference(name, data, shape);
      expect([...theirs.keys()].sort()).toEqual([...session.outputNames].sort());
      for (const [output, expected] of theirs) {
        const actual = ours[output]?.data as Float32Array;
        expect(actual.length, output).toBe(expected.length);
        const scale = expected.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
        const worst = expected.reduce(
          (most, value, i) => Math.max(most, Math.abs(value - (actual[i] ?? Number.NaN))),
          0,
        );
        expect(scale, `${output} is not all zero`).toBeGreaterThan(1e-3);
        expect(worst / scale, `${output}: largest difference relative to the largest value`).toBeLessThan(
          1e-4,
        );
      }
      await session.release();
      // The reference runs in plain JavaScript, which is slow on a busy machine.
    },
    120_000,
  );

  it.each([
    ['three channels', [0.25, 1.5, -0.5]],
    ['a block of channels', Array.from({ length: 16 }, (_, i) => -0.5 + i / 8)],
  ])('PRelu of %s', async (_, slopes) => {
    const channels = slopes.length;
    const { out } = await runGraph(channels, channels, [
      {
        node: { name: 'y', op: 'Prelu', inputs: ['x', 'slopes'], attributes: {} },
        weight: ['slopes', { dims: [1, 1, channels], data: Float32Array.from(slopes) }],
      },
    ]);
    expect(out).toEqual([...slopes.map((slope) => 0 - 2 * slope), ...slopes.map(() => 4)]);
  });

  it.each([
    ['of a block by a block', 16, [0, 16]],
    ['of a block, on both sides', 16, [16, 32]],
    ['of a block by less', 16, [0, 8]],
  ])('channels are added %s', async (_, channels, [before = 0, after = 0]) => {
    const all = before + channels + after;
    const { out } = await runGraph(channels, all, [
      {
        // The number of channels is known only for the output of a convolution.
        node: { name: 'same', op: 'DepthwiseConv2dNative', inputs: ['x', 'ones'], attributes: CONVOLUTION },
        weight: ['ones', { dims: [1, 1, channels, 1], data: new Float32Array(channels).fill(1) }],
      },
      {
        node: { name: 'y', op: 'Pad', inputs: ['same', 'pads'], attributes: {} },
        weight: ['pads', { dims: [4, 2], data: Float32Array.from([0, 0, 0, 0, 0, 0, before, after]) }],
      },
    ]);
    const padded = (value: number) =>
      Array.from({ length: all }, (_, i) => (i < before || i >= before + channels ? 0 : value));
    expect(out).toEqual([...padded(-2), ...padded(4)]);
  });

  it('refuses a graph it does not know instead of guessing', () => {
    const node = (op: string) => ({ name: 'x', op, inputs: [], attributes: {} });
    const model = { nodes: [node('LSTM')], weights: new Map() };
    expect(() => convertTfjsToOnnx(model, { name: 'm', outputs: {} })).toThrow(/LSTM .* is not supported/);
  });

  it('refuses weight files of the wrong length', async () => {
    const json = await readFile(join(weightsDirectory(), 'facemesh.json'), 'utf8');
    const weights = await readFile(join(weightsDirectory(), 'facemesh.bin'));
    expect(() => readTfjsModel(json, weights.subarray(0, 1000))).toThrow(/ends inside/);
    expect(() => readTfjsModel(json, Buffer.concat([weights, Buffer.alloc(4)]))).toThrow(/too long/);
  });
});
