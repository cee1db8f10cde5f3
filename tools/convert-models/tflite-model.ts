import { FlatTable } from './flatbuffer.ts';

/**
 * A TensorFlow Lite model. This file reads the part of
 * https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs that
 * convolutional networks with float weights need. Field numbers are those of the schema.
 */
export interface TfliteModel {
  readonly tensors: readonly TfliteTensor[];
  readonly operators: readonly TfliteOperator[];
  /** Indices of tensors. */
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

export interface TfliteTensor {
  readonly name: string;
  readonly dims: readonly number[];
  /** Values of a constant, however it was stored (half precision, sparse, integers); undefined for other tensors. */
  readonly data?: Float32Array;
}

export interface TfliteOperator {
  readonly op: string;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly options: Readonly<Record<string, number>>;
}

type Option = readonly [field: number, type: 'int8' | 'int32', missing?: number];

const STRIDES = { strideWidth: [1, 'int32'], strideHeight: [2, 'int32'] } as const;
/** Operator code → name and the options that a converter needs. */
const OPERATORS: Readonly<Record<number, readonly [string, Readonly<Record<string, Option>>]>> = {
  0: ['ADD', { activation: [0, 'int8'] }],
  2: ['CONCATENATION', { axis: [0, 'int32'], activation: [1, 'int8'] }],
  3: [
    'CONV_2D',
    {
      padding: [0, 'int8'],
      ...STRIDES,
      activation: [3, 'int8'],
      dilationWidth: [4, 'int32', 1],
      dilationHeight: [5, 'int32', 1],
    },
  ],
  4: [
    'DEPTHWISE_CONV_2D',
    {
      padding: [0, 'int8'],
      ...STRIDES,
      activation: [4, 'int8'],
      dilationWidth: [5, 'int32', 1],
      dilationHeight: [6, 'int32', 1],
    },
  ],
  5: ['DEPTH_TO_SPACE', { blockSize: [0, 'int32'] }],
  6: ['DEQUANTIZE', {}],
  14: ['LOGISTIC', {}],
  17: [
    'MAX_POOL_2D',
    { padding: [0, 'int8'], ...STRIDES, width: [3, 'int32'], height: [4, 'int32'], activation: [5, 'int8'] },
  ],
  22: ['RESHAPE', {}],
  23: ['RESIZE_BILINEAR', { alignCorners: [2, 'int8'], halfPixelCentres: [3, 'int8'] }],
  34: ['PAD', {}],
  124: ['DENSIFY', {}],
};

/** @throws Error when the bytes are not such a model, end early, or contain an unknown element type */
export function readTfliteModel(bytes: Uint8Array): TfliteModel {
  try {
    const model = FlatTable.root(bytes, 'TFL3');
    const graph = model.tables(2)[0];
    if (!graph) throw new Error('a model without a graph');
    const buffers = model.tables(4);
    const codes = model.tables(1).map((code) => Math.max(code.int8(0), code.int32(3)));
    return {
      tensors: graph.tables(0).map((tensor) => readTensor(tensor, buffers)),
      operators: graph.tables(3).map((operator) => readOperator(operator, codes)),
      inputs: graph.int32s(1),
      outputs: graph.int32s(2),
    };
  } catch (error) {
    if (error instanceof RangeError) throw new Error(`the model ends early: ${error.message}`);
    throw error;
  }
}

function readOperator(operator: FlatTable, codes: readonly number[]): TfliteOperator {
  const code = codes[operator.int32(0)] ?? -1;
  const [op, fields] = OPERATORS[code] ?? [`number ${code}`, {}];
  const table = operator.table(4);
  const options = Object.entries(fields).map(([name, [field, type, missing = 0]]) => [
    name,
    table ? table[type](field, missing) : missing,
  ]);
  return {
    op,
    inputs: operator.int32s(1),
    outputs: operator.int32s(2),
    options: Object.fromEntries(options),
  };
}

function readTensor(tensor: FlatTable, buffers: readonly FlatTable[]): TfliteTensor {
  const name = tensor.string(3);
  const dims = tensor.int32s(0);
  const bytes = buffers[tensor.int32(2)]?.bytes(0);
  if (!bytes || bytes.length === 0) return { name, dims };
  const stored = readValues(bytes, tensor.int8(1), name);
  const sparsity = tensor.table(6);
  const data = sparsity ? densify(stored, dims, sparsity, name) : stored;
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (data.length !== count) throw new Error(`${name}: ${data.length} values instead of ${count}`);
  return { name, dims, data };
}

function readValues(bytes: Uint8Array, type: number, name: string): Float32Array {
  // A copy makes the offset aligned.
  const { buffer } = new Uint8Array(bytes);
  if (type === 0) return new Float32Array(buffer);
  if (type === 1) return Float32Array.from(new Float16Array(buffer));
  if (type === 2) return Float32Array.from(new Int32Array(buffer));
  throw new Error(`${name}: constants of element type ${type} are not supported`);
}

const DENSE = 0;

/** Expands a matrix whose rows are stored sparse. All dimensions but the last must be dense and in order. */
function densify(
  values: Float32Array,
  dims: readonly number[],
  sparsity: FlatTable,
  name: string,
): Float32Array {
  const order = sparsity.int32s(0);
  const formats = sparsity.tables(2);
  const last = formats.at(-1);
  const known =
    order.length === dims.length &&
    order.every((dim, i) => dim === i) &&
    formats.slice(0, -1).every((format) => format.int8(0) === DENSE);
  if (!known || !last || last.int8(0) === DENSE)
    throw new Error(`${name}: this sparse layout is not supported`);
  const segments = indices(last, 2);
  const columns = indices(last, 4);
  const width = dims.at(-1) ?? 0;
  const out = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
  for (let row = 0; row + 1 < segments.length; row++) {
    for (let i = segments[row] as number; i < (segments[row + 1] as number); i++) {
      out[row * width + (columns[i] as number)] = values[i] as number;
    }
  }
  return out;
}

/** Reads a vector of indices; the field before it contains their type. */
function indices(format: FlatTable, field: number): number[] {
  const vector = format.table(field + 1);
  const type = format.int8(field);
  if (type === 1) return vector?.int32s(0) ?? [];
  if (type === 2) return vector?.uint16s(0) ?? [];
  return [...(vector?.bytes(0) ?? [])];
}
