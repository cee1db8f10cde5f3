import { ONNX_TYPES, type OnnxType } from '@semblance/vision/models/onnx-types';
import { externalTensors } from './external-tensors.ts';
import { type Field, FileBytes, fields, integers, OnnxFileError, text } from './onnx-fields.ts';

/** An input or output of a graph as its file declares it. */
export interface OnnxValueInfo {
  readonly name: string;
  /** `other(n)` for an element type that no contract uses. */
  readonly type: string;
  /** Undefined when the file does not say. A name or `?` is a size that is known only in a run. */
  readonly dims: readonly (number | string)[] | undefined;
}

/** An initializer (a weight) of a graph, and the position of its data in the file. */
export interface OnnxTensorInfo {
  readonly name: string;
  readonly type: string;
  readonly dims: readonly number[];
  /** Position of `raw_data` or of the packed `float_data`. */
  readonly bytes: { readonly start: number; readonly end: number } | undefined;
}

export interface OnnxSummary {
  /** Excludes inputs with an initializer, which models before IR version 4 list too. */
  readonly inputs: readonly OnnxValueInfo[];
  readonly outputs: readonly OnnxValueInfo[];
  readonly lastInitializer: OnnxTensorInfo | undefined;
  /** Tensors whose data are in another file, each with its owner. */
  readonly external: readonly string[];
}

const TYPE_NAMES = new Map<number, string>(
  (Object.keys(ONNX_TYPES) as OnnxType[]).map((name) => [ONNX_TYPES[name], name]),
);

/**
 * Reads the declarations of a model, field by field (onnx.proto3), and skips the weights. A file of any size needs
 * a few thousand bytes of memory.
 * @throws OnnxFileError
 */
export function readOnnxSummary(path: string): OnnxSummary {
  const file = new FileBytes(path);
  try {
    let graph: Field | undefined;
    for (const field of fields(file, 0, file.size, 'the model')) {
      if (field.number !== 7) continue;
      if (graph) throw new OnnxFileError('has two graphs');
      graph = field;
    }
    if (!graph) throw new OnnxFileError('is no ONNX model: it has no graph');
    return { ...readGraph(file, graph), external: externalTensors(file) };
  } finally {
    file.close();
  }
}

/**
 * Reads the values of an initializer.
 * @throws OnnxFileError when they are not floats, or their number does not match the shape
 */
export function readOnnxTensor(path: string, tensor: OnnxTensorInfo): Float32Array {
  const count = tensor.dims.reduce((product, dim) => product * dim, 1);
  const { bytes, type } = tensor;
  if (type !== 'float32' && type !== 'float16') {
    throw new OnnxFileError(`${tensor.name} is ${type}, not float32 or float16`);
  }
  const each = type === 'float32' ? 4 : 2;
  if (!bytes || bytes.end - bytes.start !== count * each) {
    const found = bytes ? bytes.end - bytes.start : 0;
    throw new OnnxFileError(`${tensor.name} has ${found} bytes of data, not ${count * each}`);
  }
  const file = new FileBytes(path);
  try {
    const { buffer } = file.read(bytes.start, bytes.end);
    return type === 'float32' ? new Float32Array(buffer) : Float32Array.from(new Float16Array(buffer));
  } finally {
    file.close();
  }
}

function readGraph(file: FileBytes, graph: Field): Omit<OnnxSummary, 'external'> {
  const inputs: OnnxValueInfo[] = [];
  const outputs: OnnxValueInfo[] = [];
  const initializers = new Set<string>();
  let last: OnnxTensorInfo | undefined;
  for (const field of fields(file, graph.start, graph.end, 'the graph')) {
    if (field.number === 5) {
      const tensor = readTensorInfo(file, field);
      initializers.add(tensor.name);
      last = tensor;
    } else if (field.number === 11) inputs.push(readValue(file, field));
    else if (field.number === 12) outputs.push(readValue(file, field));
  }
  return {
    inputs: inputs.filter(({ name }) => !initializers.has(name)),
    outputs,
    lastInitializer: last,
  };
}

function readTensorInfo(file: FileBytes, message: Field): OnnxTensorInfo {
  const dims: number[] = [];
  let type = 0;
  let name = '';
  let bytes: OnnxTensorInfo['bytes'];
  for (const field of fields(file, message.start, message.end, 'an initializer')) {
    if (field.number === 1) dims.push(...integers(file, field));
    else if (field.number === 2) type = Number(field.value);
    else if (field.number === 8) name = text(file, field);
    else if ((field.number === 4 || field.number === 9) && field.wire === 2) bytes = field;
  }
  return { name, type: typeName(type), dims, bytes };
}

function readValue(file: FileBytes, message: Field): OnnxValueInfo {
  let name = '';
  let type = 'other(0)';
  let dims: (number | string)[] | undefined;
  for (const field of fields(file, message.start, message.end, 'a value')) {
    if (field.number === 1) name = text(file, field);
    if (field.number !== 2) continue;
    for (const kind of fields(file, field.start, field.end, 'a type')) {
      if (kind.number !== 1) continue;
      for (const part of fields(file, kind.start, kind.end, 'a tensor type')) {
        if (part.number === 1) type = typeName(Number(part.value));
        else if (part.number === 2) dims = readShape(file, part);
      }
    }
  }
  return { name, type, dims };
}

function readShape(file: FileBytes, message: Field): (number | string)[] {
  const dims: (number | string)[] = [];
  for (const dim of fields(file, message.start, message.end, 'a shape')) {
    if (dim.number !== 1) continue;
    let size: number | string = '?';
    for (const part of fields(file, dim.start, dim.end, 'a dimension')) {
      if (part.number === 1) size = part.value > 0n ? Number(part.value) : '?';
      else if (part.number === 2) size = text(file, part) || '?';
    }
    dims.push(size);
  }
  return dims;
}

function typeName(type: number): string {
  return TYPE_NAMES.get(type) ?? `other(${type})`;
}
