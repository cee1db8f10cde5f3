import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openSession } from '@semblance/vision/models/session';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { TFLITE_MODELS, type TfliteModelName, tfliteFile } from './catalog.ts';
import { readTfliteModel, type TfliteModel, type TfliteOperator, type TfliteTensor } from './tflite-model.ts';
import { convertTfliteToOnnx } from './tflite-to-onnx.ts';

const ASTRONAUT = join(import.meta.dirname, '..', '..', 'media', 'astronaut.png');

interface Reference {
  readonly size: number;
  readonly step: number;
  readonly values: readonly number[];
}

let references: Record<TfliteModelName, Record<string, Reference>>;

beforeAll(async () => {
  references = JSON.parse(await readFile(join(import.meta.dirname, 'tflite-reference.json'), 'utf8'));
});

/** Returns the picture of the reference: the astronaut, scaled to the nearest pixel, with values in [low, 1]. */
async function picture(side: number, low: number): Promise<Float32Array> {
  const { data, info } = await sharp(ASTRONAUT).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  const out = new Float32Array(side * side * 3);
  const place = (i: number): number => Math.floor(((i + 0.5) * info.width) / side);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      for (let c = 0; c < 3; c++) {
        const value = data[(place(y) * info.width + place(x)) * 3 + c] as number;
        out[(y * side + x) * 3 + c] = (value / 255) * (1 - low) + low;
      }
    }
  }
  return out;
}

describe('converted networks', () => {
  it.each([
    ['pose_detector', 224, -1],
    ['pose_full', 256, 0],
  ] as const)("%s gives what Google's own run time gives", async (name, side, low) => {
    const session = await openSession(name);
    const input = new Tensor('float32', await picture(side, low), [1, side, side, 3]);
    const ours = await session.run({ [session.inputNames[0] as string]: input });
    for (const [node, output] of Object.entries(TFLITE_MODELS[name].outputs)) {
      const { size, step, values } = references[name][node] as Reference;
      const actual = ours[output.name]?.data as Float32Array;
      expect(ours[output.name]?.dims, output.name).toEqual(output.dims);
      expect(values.length, output.name).toBe(Math.ceil(actual.length / step));
      expect(size, `${output.name} is not all zero`).toBeGreaterThan(0.1);
      const meanSize = actual.reduce((sum, value) => sum + Math.abs(value), 0) / actual.length;
      expect(Math.abs(meanSize / size - 1), `${output.name}: mean size of all values`).toBeLessThan(1e-4);
      const worst = values.reduce(
        (most, value, i) => Math.max(most, Math.abs(value - (actual[i * step] ?? Number.NaN))),
        0,
      );
      const largest = Math.max(...values.map(Math.abs));
      expect(worst / largest, `${output.name}: largest difference, of the largest value`).toBeLessThan(5e-4);
    }
    await session.release();
  });

  it('are read whole or not at all', async () => {
    const bytes = await readFile(tfliteFile('pose_full'));
    expect(readTfliteModel(bytes).operators.length).toBeGreaterThan(100);
    for (const share of [0.1, 0.5, 0.9])
      expect(() => readTfliteModel(bytes.subarray(0, bytes.length * share))).toThrow(/ends early/);
    expect(() => readTfliteModel(Buffer.from('RIFF----WAVE'))).toThrow(/not a FlatBuffer of kind TFL3/);
  });
});

/** Returns a model of one operator with one input tensor; its other inputs are constants. */
function oneOperator(
  operator: Pick<TfliteOperator, 'op'> & Partial<TfliteOperator>,
  input: readonly number[],
  output: readonly number[],
  constants: readonly { dims: readonly number[]; data: readonly number[] }[] = [],
): TfliteModel {
  return chain([{ ...operator, constants, dims: output }], input);
}

type Link = Pick<TfliteOperator, 'op'> &
  Partial<TfliteOperator> & {
    readonly dims: readonly number[];
    readonly constants?: readonly { dims: readonly number[]; data: readonly number[] }[];
  };

/** Returns a model of operators in sequence; each uses the previous result. */
function chain(links: readonly Link[], input: readonly number[]): TfliteModel {
  const tensors: TfliteTensor[] = [{ name: 'in', dims: input }];
  const operators: TfliteOperator[] = [];
  let last = 0;
  for (const { op, options = {}, dims, constants = [], inputs } of links) {
    const first = tensors.length;
    for (const { dims: size, data } of constants)
      tensors.push({ name: `constant ${tensors.length}`, dims: size, data: Float32Array.from(data) });
    const result = tensors.push({ name: `result ${tensors.length}`, dims }) - 1;
    operators.push({
      op,
      options,
      inputs: inputs ?? [last, ...constants.map((_, i) => first + i)],
      outputs: [result],
    });
    last = result;
  }
  tensors[last] = { ...(tensors[last] as TfliteTensor), name: 'out' };
  return { tensors, operators, inputs: [0], outputs: [last] };
}

async function run(model: TfliteModel, data: readonly number[]): Promise<number[]> {
  const dims = model.tensors[0]?.dims ?? [];
  const session = await InferenceSession.create(convert(model));
  const { y } = await session.run({ in: new Tensor('float32', Float32Array.from(data), dims) });
  await session.release();
  return [...((y as Tensor).data as Float32Array)];
}

function convert(model: TfliteModel): Uint8Array {
  const dims = model.tensors.find(({ name }) => name === 'out')?.dims ?? [];
  return convertTfliteToOnnx(model, { name: 'small', outputs: { out: { name: 'y', dims } } });
}

const CONVOLUTION = {
  op: 'CONV_2D',
  options: {
    padding: 0,
    strideWidth: 2,
    strideHeight: 2,
    activation: 0,
    dilationWidth: 1,
    dilationHeight: 1,
  },
} as const;
/** Weights of one channel, 3 × 3, without bias: they sum the window. */
const SUM = [
  { dims: [1, 3, 3, 1], data: Array(9).fill(1) },
  { dims: [1], data: [0] },
];
const PADDING = { dims: [4, 2], data: [0, 0, 1, 1, 1, 1, 0, 0] };
const FOUR = Array.from({ length: 16 }, (_, i) => i);

describe('converted operators', () => {
  it('pad what SAME needs below and to the right', async () => {
    // 4 × 4 with stride 2 needs one pixel more on each axis. It is added at the end, so the first window starts at
    // the first pixel.
    const model = oneOperator(CONVOLUTION, [1, 4, 4, 1], [1, 2, 2, 1], SUM);
    expect(await run(model, FOUR)).toEqual([45, 39, 66, 50]);
  });

  it('take explicit padding into the convolution that follows', async () => {
    const valid = { ...CONVOLUTION, options: { ...CONVOLUTION.options, padding: 1 } };
    const model = chain(
      [
        { op: 'PAD', dims: [1, 6, 6, 1], constants: [PADDING] },
        { ...valid, dims: [1, 2, 2, 1], constants: SUM },
      ],
      [1, 4, 4, 1],
    );
    expect(await run(model, FOUR)).toEqual([10, 24, 51, 90]);
  });

  it('keep the channels of convolutions apart and in order', async () => {
    const pointwise = {
      ...CONVOLUTION,
      options: { ...CONVOLUTION.options, strideWidth: 1, strideHeight: 1, activation: 3 },
    };
    const full = oneOperator(
      pointwise,
      [1, 1, 2, 2],
      [1, 1, 2, 3],
      [
        { dims: [3, 1, 1, 2], data: [1, 0, 0, 1, 1, -1] },
        { dims: [3], data: [0, 0.5, 0] },
      ],
    );
    // The activation clips below 0 and above 6.
    expect(await run(full, [1, 2, 9, 3])).toEqual([1, 2.5, 0, 6, 3.5, 6]);
    const depthwise = oneOperator(
      { ...pointwise, op: 'DEPTHWISE_CONV_2D' },
      [1, 1, 2, 2],
      [1, 1, 2, 2],
      [
        { dims: [1, 1, 1, 2], data: [2, 0.25] },
        { dims: [2], data: [0, 1] },
      ],
    );
    expect(await run(depthwise, [1, 2, -1, 4])).toEqual([2, 1.5, 0, 2]);
  });

  it('resize by the centres of pixels', async () => {
    const resize = { op: 'RESIZE_BILINEAR', options: { alignCorners: 0, halfPixelCentres: 1 } };
    const model = oneOperator(resize, [1, 1, 2, 1], [1, 1, 4, 1], [{ dims: [2], data: [1, 4] }]);
    expect(await run(model, [0, 4])).toEqual([0, 1, 3, 4]);
  });

  it('move depth into space as TensorFlow orders it', async () => {
    const model = oneOperator(
      { op: 'DEPTH_TO_SPACE', options: { blockSize: 2 } },
      [1, 1, 1, 8],
      [1, 2, 2, 2],
    );
    expect(await run(model, [1, 2, 3, 4, 5, 6, 7, 8])).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('flatten with the channels last', async () => {
    const model = oneOperator({ op: 'RESHAPE' }, [1, 2, 2, 2], [1, 8]);
    expect(await run(model, [1, 2, 3, 4, 5, 6, 7, 8])).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it.each([
    ['an unknown operator', oneOperator({ op: 'number 99' }, [1, 1, 1, 1], [1, 1, 1, 1]), /number 99 is not/],
    [
      'dilation',
      oneOperator(
        { ...CONVOLUTION, options: { ...CONVOLUTION.options, dilationWidth: 2 } },
        [1, 4, 4, 1],
        [1, 2, 2, 1],
        SUM,
      ),
      /dilated/,
    ],
    [
      'an unknown activation',
      oneOperator({ op: 'ADD', options: { activation: 4 }, inputs: [0, 0] }, [1, 1, 1, 1], [1, 1, 1, 1]),
      /activation 4/,
    ],
    [
      'aligned corners',
      oneOperator(
        { op: 'RESIZE_BILINEAR', options: { alignCorners: 1, halfPixelCentres: 0 } },
        [1, 1, 2, 1],
        [1, 1, 4, 1],
      ),
      /half-pixel/,
    ],
    [
      'padding of channels',
      oneOperator(
        { op: 'PAD' },
        [1, 2, 2, 1],
        [1, 2, 2, 2],
        [{ dims: [4, 2], data: [0, 0, 0, 0, 0, 0, 0, 1] }],
      ),
      /rows and columns/,
    ],
    [
      'padding before something else',
      chain(
        [
          { op: 'PAD', dims: [1, 6, 6, 1], constants: [PADDING] },
          { op: 'LOGISTIC', dims: [1, 6, 6, 1] },
        ],
        [1, 4, 4, 1],
      ),
      /anything but a convolution/,
    ],
  ])('refuse %s instead of guessing', (_, model, message) => {
    expect(() => convert(model)).toThrow(message);
  });
});
