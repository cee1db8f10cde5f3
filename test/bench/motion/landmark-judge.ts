import { faceApiGraph } from '@semblance/convert-models/face-api';
import { encodeOnnxModel, type OnnxNode } from '@semblance/convert-models/onnx-encoder';
import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { cropRgb, squareCrop, toPicture } from '@semblance/vision/picture';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const SIZE = 112;
const MEAN = [122.782, 117.001, 104.298] as const;
/** Side of the crop relative to the extent of the face: the network was trained on a detector's boxes. */
const MARGIN = 1.1;
const UPPER_LIP = [61, 62, 63];
const LOWER_LIP = [67, 66, 65];
const RIGHT_EYE = [
  [37, 41],
  [38, 40],
] as const;
const LEFT_EYE = [
  [43, 47],
  [44, 46],
] as const;

/** Openings of mouth and eyes that the judge measures, as shares of the face's width. */
export interface Openings {
  readonly mouth: number;
  readonly eyes: number;
}

/** Finds the 68 landmarks of a face: x and y in turn, as shares of its {@link extentOf}. */
type Landmarks = (picture: Picture, face: Face) => Promise<Float32Array>;

/**
 * Creates a detector that the engine does not use: the 68 landmarks of `@vladmandic/face-api`, whose network is
 * rebuilt from its published weights. From the mesh it takes only the position, tilt and size of the face.
 */
async function landmarkDetector(): Promise<Landmarks> {
  const session = await InferenceSession.create(await buildLandmarks(), { intraOpNumThreads: 1 });
  return async (picture, face) => {
    const { center, side } = extentOf(face);
    const { data } = cropRgb(picture, squareCrop(center, side, face.roll, SIZE), SIZE, SIZE);
    const input = new Float32Array(3 * SIZE * SIZE);
    for (let i = 0; i < SIZE * SIZE; i++) {
      for (let c = 0; c < 3; c++) {
        input[c * SIZE * SIZE + i] = ((data[i * 3 + c] as number) - (MEAN[c] as number)) / 255;
      }
    }
    const outputs = await session.run({ input: new Tensor('float32', input, [1, 3, SIZE, SIZE]) });
    return outputs.points?.data as Float32Array;
  };
}

/** Mesh points of the landmarks 17 to 67: brows, nose, eyes and lips. */
const MESH_POINTS = [
  71, 63, 105, 66, 107, 336, 296, 334, 293, 301, 168, 197, 5, 4, 75, 97, 2, 326, 305, 33, 160, 158, 133, 153,
  144, 362, 385, 387, 263, 373, 380, 61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181, 78, 82, 13, 312,
  308, 317, 14, 87,
];
const FIRST = 17;

/**
 * Returns the mean distance between the detector's landmarks and the mesh, in % of the face's width.
 * @param seen whether a mesh point is seen: where a mask hides a mouth, the detector's guess says nothing about the
 * mesh
 */
export type LandmarkDistance = (
  picture: Picture,
  face: Face,
  seen?: (index: number) => boolean,
) => Promise<number>;

export async function landmarkDistance(): Promise<LandmarkDistance> {
  const detect = await landmarkDetector();
  return async (picture, face, seen = () => true) => {
    const points = await detect(picture, face);
    const { center, side } = extentOf(face);
    const crop = squareCrop(center, side, face.roll, 1);
    let [sum, count] = [0, 0];
    for (const [k, index] of MESH_POINTS.entries()) {
      if (!seen(index)) continue;
      count++;
      const [u, v] = [points[(FIRST + k) * 2] as number, points[(FIRST + k) * 2 + 1] as number];
      const { x, y } = toPicture(crop, u, v);
      sum += Math.hypot(x - (face.points[index * 3] as number), y - (face.points[index * 3 + 1] as number));
    }
    return (100 * sum) / Math.max(1, count) / face.width;
  };
}

/** Creates a judge of mouth and lids by the detector's landmarks. */
export async function landmarkJudge(): Promise<(picture: Picture, face: Face) => Promise<Openings>> {
  const detect = await landmarkDetector();
  return async (picture, face) => {
    const points = await detect(picture, face);
    const scale = extentOf(face).side / face.width;
    const y = (i: number): number => (points[i * 2 + 1] as number) * scale;
    const mean = (list: readonly number[]): number => list.reduce((sum, v) => sum + v, 0) / list.length;
    return {
      mouth: mean(LOWER_LIP.map(y)) - mean(UPPER_LIP.map(y)),
      eyes: mean([...RIGHT_EYE, ...LEFT_EYE].map(([upper, lower]) => y(lower) - y(upper))),
    };
  };
}

/** Returns the centre of the mesh and the side of the crop, which is upright with the face. */
function extentOf({ points, roll }: Face): { center: { x: number; y: number }; side: number } {
  const [cos, sin] = [Math.cos(roll), Math.sin(roll)];
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 3) {
    const [x, y] = [points[i] as number, points[i + 1] as number];
    const [u, v] = [cos * x + sin * y, -sin * x + cos * y];
    [left, right] = [Math.min(left, u), Math.max(right, u)];
    [top, bottom] = [Math.min(top, v), Math.max(bottom, v)];
  }
  const [u, v] = [(left + right) / 2, (top + bottom) / 2];
  const side = MARGIN * Math.max(right - left, bottom - top);
  return { center: { x: cos * u - sin * v, y: sin * u + cos * v }, side };
}

/**
 * Builds the network of face-api's FaceLandmark68Net as an ONNX model. Its output is x and y of 68 points, as
 * shares of the crop.
 */
async function buildLandmarks(): Promise<Uint8Array> {
  const graph = await faceApiGraph('face_landmark_68');
  const { nodes, initializers, add } = graph;
  /** Adds weights, with their axes in another order if one is given. */
  const constant = (name: string, axes?: readonly number[]): string => {
    const weight = graph.get(name);
    const { dims, data } = axes ? transposed(weight, axes) : weight;
    return graph.constant(name, dims, data);
  };
  const conv = (x: string, filters: string, more: OnnxNode['attributes'], bias?: string): string => {
    const depthwise = filters.endsWith('depthwise_filter');
    const weight = constant(filters, depthwise ? [2, 3, 0, 1] : [3, 2, 0, 1]);
    const inputs = bias ? [x, weight, constant(bias)] : [x, weight];
    return add('Conv', inputs, `${filters}/out`, { auto_pad: 'SAME_UPPER', ...more });
  };
  const separable = (x: string, name: string, channels: number, stride: number): string => {
    const kernel = { kernel_shape: [3, 3], strides: [stride, stride], group: channels };
    const deep = conv(x, `${name}/depthwise_filter`, kernel);
    return conv(deep, `${name}/pointwise_filter`, { kernel_shape: [1, 1] }, `${name}/bias`);
  };
  const block = (x: string, name: string, inputs: number, channels: number): string => {
    const first =
      name === 'dense0'
        ? conv(x, `${name}/conv0/filters`, { kernel_shape: [3, 3], strides: [2, 2] }, `${name}/conv0/bias`)
        : separable(x, `${name}/conv0`, inputs, 2);
    let sum = add('Relu', [first], `${name}/relu0`);
    let last = sum;
    for (const k of [1, 2, 3]) {
      sum = add('Add', [sum, separable(last, `${name}/conv${k}`, channels, 1)], `${name}/sum${k}`);
      last = add('Relu', [sum], `${name}/relu${k}`);
    }
    return last;
  };
  let x = 'input';
  [32, 64, 128, 256].forEach((channels, k) => {
    x = block(x, `dense${k}`, channels / 2, channels);
  });
  x = add('ReduceMean', [x], 'mean', { axes: [2, 3], keepdims: 0 });
  x = add('MatMul', [x, constant('fc/weights')], 'fc');
  add('Add', [x, constant('fc/bias')], 'points');
  return encodeOnnxModel({
    name: 'face_landmark_68',
    nodes,
    initializers,
    inputs: [{ name: 'input', dims: [1, 3, SIZE, SIZE] }],
    outputs: [{ name: 'points', dims: [1, 136] }],
  });
}

/** Transposes four axes: the new k-th axis is the old `axes[k]`-th. */
function transposed(
  { dims, data }: { readonly dims: readonly number[]; readonly data: Float32Array },
  axes: readonly number[],
): { dims: number[]; data: Float32Array } {
  const size = axes.map((axis) => dims[axis] as number);
  const strides = dims.map((_, k) => dims.slice(k + 1).reduce((product, dim) => product * dim, 1));
  const step = axes.map((axis) => strides[axis] as number);
  const out = new Float32Array(data.length);
  const [a = 1, b = 1, c = 1, d = 1] = size;
  let o = 0;
  for (let i = 0; i < a; i++)
    for (let j = 0; j < b; j++)
      for (let k = 0; k < c; k++)
        for (let l = 0; l < d; l++) {
          const at = [i, j, k, l].reduce((sum, place, axis) => sum + place * (step[axis] as number), 0);
          out[o++] = data[at] as number;
        }
  return { dims: size, data: out };
}
