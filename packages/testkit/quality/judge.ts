import { faceApiGraph } from '@semblance/convert-models/face-api';
import { encodeOnnxModel } from '@semblance/convert-models/onnx-encoder';
import type { Picture } from '@semblance/engine-api/picture';
import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb, squareCrop } from '@semblance/vision/picture';
import { InferenceSession, Tensor } from 'onnxruntime-node';

/**
 * Two judges of identity that no swap uses: the 128-d recogniser of `@vladmandic/face-api` (dlib's ResNet-29, King
 * 2017), and the 1024-d descriptor `faceres` of `@vladmandic/human`, which Video Swap uses for tracking.
 */
export interface Judge {
  readonly name: string;
  describe(picture: Picture, face: Face): Promise<Float32Array>;
}

const SIZE = 150;
const MEAN = [122.782, 117.001, 104.298] as const;

/** Loads face-api's recogniser, rebuilt from its published weights to run on onnxruntime. */
export async function dlibJudge(): Promise<Judge> {
  const session = await InferenceSession.create(await buildRecogniser(), { intraOpNumThreads: 1 });
  return {
    name: 'face-api 128-d',
    describe: async (picture, face) => {
      return recognise(session, alignedCrop(picture, face));
    },
  };
}

/** Mesh points that replace face-api's 68 landmarks: jaw, brows, and all between them. */
const BROWS_AND_JAW = [
  127, 234, 132, 58, 172, 150, 149, 148, 152, 377, 378, 379, 397, 288, 361, 454, 356, 70, 63, 105, 66, 107,
  336, 296, 334, 293, 300,
];

/**
 * Returns the crop for face-api's recogniser: the bounding box of the landmarks, a fifth wider, padded to a square.
 * The face is first turned upright, as the network's authors do (dlib's get_face_chip), because tilted faces give
 * poor descriptors.
 */
function alignedCrop(picture: Picture, face: Face): Float32Array {
  const cos = Math.cos(face.roll);
  const sin = Math.sin(face.roll);
  const turned = BROWS_AND_JAW.map((i) => {
    const x = face.points[i * 3] as number;
    const y = face.points[i * 3 + 1] as number;
    return { u: cos * x + sin * y, v: -sin * x + cos * y };
  });
  const us = turned.map(({ u }) => u);
  const vs = turned.map(({ v }) => v);
  const width = 1.2 * (Math.max(...us) - Math.min(...us));
  const height = 1.2 * (Math.max(...vs) - Math.min(...vs));
  const u = (Math.min(...us) + Math.max(...us)) / 2;
  const v = (Math.min(...vs) + Math.max(...vs)) / 2;
  const side = Math.max(width, height);
  const center = { x: cos * u - sin * v, y: sin * u + cos * v };
  const { data } = cropRgb(picture, squareCrop(center, side, face.roll, SIZE), SIZE, SIZE);
  const marginX = ((side - width) / 2 / side) * SIZE;
  const marginY = ((side - height) / 2 / side) * SIZE;
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) {
      const besides = x + 0.5 < marginX || x + 0.5 > SIZE - marginX;
      const beyond = y + 0.5 < marginY || y + 0.5 > SIZE - marginY;
      if (besides || beyond) data.fill(0, (y * SIZE + x) * 3, (y * SIZE + x) * 3 + 3);
    }
  }
  return data;
}

/** Runs the recogniser on a 150² crop, RGB from 0 to 255. */
export async function recognise(session: InferenceSession, rgb: Float32Array): Promise<Float32Array> {
  const input = new Float32Array(3 * SIZE * SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) {
    for (let c = 0; c < 3; c++) {
      input[c * SIZE * SIZE + i] = ((rgb[i * 3 + c] as number) - (MEAN[c] as number)) / 255;
    }
  }
  const outputs = await session.run({ input: new Tensor('float32', input, [1, 3, SIZE, SIZE]) });
  return Float32Array.from(outputs.descriptor?.data as Float32Array);
}

export async function faceresJudge(): Promise<Judge> {
  const session = await openSession('faceres');
  const [input] = session.inputNames;
  return {
    name: 'faceres 1024-d',
    describe: async (picture, face) => {
      const box = faceBox(face, 1.35);
      const { data } = cropRgb(picture, squareCrop(box, box.side, face.roll, 224), 224, 224);
      const outputs = await session.run({ [input ?? '']: new Tensor('float32', data, [1, 224, 224, 3]) });
      return Float32Array.from(outputs.descriptor?.data as Float32Array);
    },
  };
}

function faceBox(face: Face, scale: number): { x: number; y: number; side: number } {
  const cos = Math.cos(face.roll);
  const sin = Math.sin(face.roll);
  const us: number[] = [];
  const vs: number[] = [];
  for (let i = 0; i < POINTS; i++) {
    const x = face.points[i * 3] as number;
    const y = face.points[i * 3 + 1] as number;
    us.push(cos * x + sin * y);
    vs.push(-sin * x + cos * y);
  }
  const u = (Math.min(...us) + Math.max(...us)) / 2;
  const v = (Math.min(...vs) + Math.max(...vs)) / 2;
  const side = scale * Math.max(Math.max(...us) - Math.min(...us), Math.max(...vs) - Math.min(...vs));
  return { x: cos * u - sin * v, y: sin * u + cos * v, side };
}

export function distance(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += ((a[i] as number) - (b[i] as number)) ** 2;
  return Math.sqrt(sum);
}

export function cosine(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    dot += (a[i] as number) * (b[i] as number);
    aa += (a[i] as number) ** 2;
    bb += (b[i] as number) ** 2;
  }
  return dot / Math.sqrt(aa * bb);
}

/** Builds face-api's FaceRecognitionNet as an ONNX model. */
export async function buildRecogniser(): Promise<Uint8Array> {
  const { nodes, initializers, get, add, constant } = await faceApiGraph('face_recognition');
  const conv = (x: string, name: string, stride: number, pad: 'SAME_UPPER' | 'VALID'): string => {
    const filters = get(`${name}/conv/filters`);
    const [h = 0, w = 0, inputs = 0, outputs = 0] = filters.dims;
    const scale = get(`${name}/scale/weights`).data;
    const shift = get(`${name}/scale/biases`).data;
    const bias = get(`${name}/conv/bias`).data;
    const kernel = new Float32Array(filters.data.length);
    for (let k = 0; k < h * w; k++) {
      for (let i = 0; i < inputs; i++) {
        for (let o = 0; o < outputs; o++) {
          const value = (filters.data[(k * inputs + i) * outputs + o] as number) * (scale[o] as number);
          kernel[(o * inputs + i) * h * w + k] = value;
        }
      }
    }
    const folded = bias.map((value, o) => value * (scale[o] as number) + (shift[o] as number));
    return add(
      'Conv',
      [x, constant(`${name}/w`, [outputs, inputs, h, w], kernel), constant(`${name}/b`, [outputs], folded)],
      `${name}/out`,
      { kernel_shape: [h, w], strides: [stride, stride], auto_pad: pad },
    );
  };
  const residual = (x: string, name: string): string => {
    const first = add('Relu', [conv(x, `${name}/conv1`, 1, 'SAME_UPPER')], `${name}/relu1`);
    const second = conv(first, `${name}/conv2`, 1, 'SAME_UPPER');
    return add('Relu', [add('Add', [second, x], `${name}/sum`)], `${name}/relu2`);
  };
  const down = (x: string, name: string, widen: number, adjust: boolean): string => {
    const first = add('Relu', [conv(x, `${name}/conv1`, 2, 'VALID')], `${name}/relu1`);
    let second = conv(first, `${name}/conv2`, 1, 'SAME_UPPER');
    const pad = (value: string, pads: bigint[], label: string): string =>
      add(
        'Pad',
        [value, constant(`${name}/${label}`, [8], BigInt64Array.from(pads))],
        `${name}/${label}/out`,
      );
    if (adjust) second = pad(second, [0n, 0n, 0n, 0n, 0n, 0n, 1n, 1n], 'size');
    let pooled = add('AveragePool', [x], `${name}/pool`, { kernel_shape: [2, 2], strides: [2, 2] });
    if (widen > 0) pooled = pad(pooled, [0n, 0n, 0n, 0n, 0n, BigInt(widen), 0n, 0n], 'channels');
    return add('Relu', [add('Add', [pooled, second], `${name}/sum`)], `${name}/relu2`);
  };
  let x = add('Relu', [conv('input', 'conv32_down', 2, 'VALID')], 'start');
  x = add('MaxPool', [x], 'start/pool', { kernel_shape: [3, 3], strides: [2, 2] });
  for (const name of ['conv32_1', 'conv32_2', 'conv32_3']) x = residual(x, name);
  x = down(x, 'conv64_down', 32, false);
  for (const name of ['conv64_1', 'conv64_2', 'conv64_3']) x = residual(x, name);
  x = down(x, 'conv128_down', 64, false);
  for (const name of ['conv128_1', 'conv128_2']) x = residual(x, name);
  x = down(x, 'conv256_down', 128, true);
  for (const name of ['conv256_1', 'conv256_2']) x = residual(x, name);
  x = down(x, 'conv256_down_out', 0, true);
  x = add('ReduceMean', [x], 'mean', { axes: [2, 3], keepdims: 0 });
  const fc = get('fc');
  add('MatMul', [x, constant('fc', fc.dims, fc.data)], 'descriptor');
  return encodeOnnxModel({
    name: 'face_recognition',
    nodes,
    initializers,
    inputs: [{ name: 'input', dims: [1, 3, SIZE, SIZE] }],
    outputs: [{ name: 'descriptor', dims: [1, 128] }],
  });
}
