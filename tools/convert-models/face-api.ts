import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installed } from './installed.ts';
import { encodeOnnxModel, type OnnxNode, type OnnxTensor } from './onnx-encoder.ts';

/** Weights of a network of `@vladmandic/face-api` (MIT): axes of filters are height, width, inputs, outputs. */
type Weights = ReadonlyMap<string, { readonly dims: number[]; readonly data: Float32Array }>;

type Network = 'face_recognition' | 'face_landmark_68' | 'tiny_face_detector';

interface Weight {
  readonly name: string;
  readonly shape: number[];
  readonly quantization?: { readonly scale: number; readonly min: number };
}

/** Reads the weights of one of face-api's networks. @throws Error when the package is not installed */
export async function readWeights(network: Network): Promise<Weights> {
  const directory = installed('@vladmandic/face-api', 'model');
  const manifest = JSON.parse(
    await readFile(join(directory, `${network}_model-weights_manifest.json`), 'utf8'),
  ) as { weights: Weight[] }[];
  const bytes = new Uint8Array(await readFile(join(directory, `${network}_model.bin`)));
  const weights = new Map<string, { dims: number[]; data: Float32Array }>();
  let offset = 0;
  for (const { name, shape, quantization } of manifest.flatMap((group) => group.weights)) {
    const count = shape.reduce((product, dim) => product * dim, 1);
    let data: Float32Array;
    if (quantization) {
      const { scale, min } = quantization;
      data = Float32Array.from(bytes.subarray(offset, offset + count), (value) => value * scale + min);
      offset += count;
    } else {
      data = new Float32Array(bytes.slice(offset, offset + count * 4).buffer);
      offset += count * 4;
    }
    weights.set(name, { dims: shape, data });
  }
  if (offset !== bytes.length)
    throw new Error(`face-api ${network}: weight file of another length than declared`);
  return weights;
}

/** An ONNX graph that is built from the weights of one of face-api's networks. */
export interface FaceApiGraph {
  readonly nodes: OnnxNode[];
  readonly initializers: OnnxTensor[];
  /** @throws Error when the network has no weights of this name */
  get(name: string): { readonly dims: number[]; readonly data: Float32Array };
  /** Adds a node and returns the name of its output. */
  add(opType: string, inputs: string[], output: string, attributes?: OnnxNode['attributes']): string;
  /** Adds a constant and returns its name. */
  constant(name: string, dims: number[], data: OnnxTensor['data']): string;
}

/** Begins a graph. @throws Error when the package is not installed */
export async function faceApiGraph(network: Network): Promise<FaceApiGraph> {
  const weights = await readWeights(network);
  const graph: FaceApiGraph = {
    nodes: [],
    initializers: [],
    get(name) {
      const weight = weights.get(name);
      if (!weight) throw new Error(`face-api ${network}: ${name} is missing`);
      return weight;
    },
    add(opType, inputs, output, attributes = {}) {
      graph.nodes.push({ opType, inputs, outputs: [output], attributes });
      return output;
    },
    constant(name, dims, data) {
      graph.initializers.push({ name, dims, data });
      return name;
    },
  };
  return graph;
}

/** Side of the picture that the converted detector sees, and of the grid of its last layer. */
const SIZE = 160;
const GRID = 5;
/** Mean colour that the detector was trained with. */
const MEAN = [117.001, 114.697, 97.404];

/**
 * Builds face-api's tiny face detector (a small YOLO v2, Redmon and Farhadi 2017, of separable convolutions) as an
 * ONNX model that returns its last layer, 512 features in 5 × 5 cells, instead of boxes.
 */
export async function buildFaceFeatures(): Promise<Uint8Array> {
  const { nodes, initializers, get, add, constant } = await faceApiGraph('tiny_face_detector');
  /** Adds filters with their axes in ONNX's order; a depthwise filter has one input for each of its outputs. */
  const filter = (name: string): { name: string; kernel: number[]; outputs: number } => {
    const { dims, data } = get(name);
    const [h = 0, w = 0, a = 0, b = 0] = dims;
    const deep = name.endsWith('depthwise_filter');
    const [outputs, inputs] = deep ? [a, b] : [b, a];
    const out = new Float32Array(data.length);
    for (let k = 0; k < h * w; k++) {
      for (let o = 0; o < outputs; o++) {
        for (let i = 0; i < inputs; i++) {
          const from = deep ? (k * a + o) * b + i : (k * a + i) * b + o;
          out[(o * inputs + i) * h * w + k] = data[from] as number;
        }
      }
    }
    return { name: constant(name, [outputs, inputs, h, w], out), kernel: [h, w], outputs };
  };
  const bias = (name: string): string => constant(name, get(name).dims, get(name).data);
  const leaky = (x: string): string => add('LeakyRelu', [x], `${x}/leaky`, { alpha: { float: 0.1 } });
  const pool = (x: string, stride: number): string =>
    add('MaxPool', [x], `${x}/pool`, {
      kernel_shape: [2, 2],
      strides: [stride, stride],
      auto_pad: 'SAME_UPPER',
    });
  let x = add('Sub', ['input', constant('mean', [1, 3, 1, 1], Float32Array.from(MEAN))], 'centred');
  x = add('Div', [x, constant('range', [1], Float32Array.of(255))], 'scaled');
  const first = filter('conv0/filters');
  x = leaky(
    add('Conv', [x, first.name, bias('conv0/bias')], 'conv0', {
      kernel_shape: first.kernel,
      auto_pad: 'VALID',
    }),
  );
  for (const name of ['conv1', 'conv2', 'conv3', 'conv4', 'conv5']) {
    const deep = filter(`${name}/depthwise_filter`);
    const point = filter(`${name}/pointwise_filter`);
    x = add('Conv', [pool(x, 2), deep.name], `${name}/deep`, {
      kernel_shape: deep.kernel,
      pads: [1, 1, 1, 1],
      group: deep.outputs,
    });
    x = add('Conv', [x, point.name, bias(`${name}/bias`)], name, { kernel_shape: point.kernel });
    x = leaky(x);
  }
  add('Identity', [pool(x, 1)], 'features');
  return encodeOnnxModel({
    name: 'face_features',
    nodes,
    initializers,
    inputs: [{ name: 'input', dims: [1, 3, SIZE, SIZE] }],
    outputs: [{ name: 'features', dims: [1, 512, GRID, GRID] }],
  });
}
