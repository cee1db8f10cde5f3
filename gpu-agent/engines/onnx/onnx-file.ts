import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { ONNX_TYPES, type OnnxType } from '../models/onnx-encoder.ts';

/** Not an ONNX model, or not all of one. */
export class OnnxFileError extends Error {
  override readonly name = 'OnnxFileError';
}

/** An input or output of a graph as its file declares it. */
export interface OnnxValueInfo {
  readonly name: string;
  /** `other(n)` for an element type that no contract uses. */
  readonly type: string;
  /** Undefined when the file does not say. A name or `?` stands for a size known only when the model runs. */
  readonly dims: readonly (number | string)[] | undefined;
}

/** An initializer (a weight) of a graph and where its data lies in the file. */
export interface OnnxTensorInfo {
  readonly name: string;
  readonly type: string;
  readonly dims: readonly number[];
  /** `raw_data`, or the packed `float_data`: where the bytes are. */
  readonly bytes: { readonly start: number; readonly end: number } | undefined;
}

export interface OnnxSummary {
  /** Without those that have an initializer, as models before IR version 4 list them. */
  readonly inputs: readonly OnnxValueInfo[];
  readonly outputs: readonly OnnxValueInfo[];
  readonly lastInitializer: OnnxTensorInfo | undefined;
  /** Initializers whose data lie in another file. */
  readonly external: readonly string[];
}

const MAX_NAME = 4096;
const TYPE_NAMES = new Map<number, string>(
  (Object.keys(ONNX_TYPES) as OnnxType[]).map((name) => [ONNX_TYPES[name], name]),
);

/**
 * Reads what a model declares, field by field (onnx.proto3), stepping over the weights: a file of any size takes a few
 * thousand bytes of memory.
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
    return readGraph(file, graph);
  } finally {
    file.close();
  }
}

/**
 * Reads the values of an initializer.
 * @throws OnnxFileError when they are not floats or not as many as its shape says
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

function readGraph(file: FileBytes, graph: Field): OnnxSummary {
  const inputs: OnnxValueInfo[] = [];
  const outputs: OnnxValueInfo[] = [];
  const initializers = new Set<string>();
  const external: string[] = [];
  let last: OnnxTensorInfo | undefined;
  for (const field of fields(file, graph.start, graph.end, 'the graph')) {
    if (field.number === 5) {
      const tensor = readTensorInfo(file, field);
      initializers.add(tensor.name);
      if (tensor.external) external.push(tensor.name);
      last = tensor;
    } else if (field.number === 11) inputs.push(readValue(file, field));
    else if (field.number === 12) outputs.push(readValue(file, field));
  }
  return {
    inputs: inputs.filter(({ name }) => !initializers.has(name)),
    outputs,
    lastInitializer: last,
    external,
  };
}

function readTensorInfo(file: FileBytes, message: Field): OnnxTensorInfo & { external: boolean } {
  const dims: number[] = [];
  let type = 0;
  let name = '';
  let bytes: OnnxTensorInfo['bytes'];
  let external = false;
  for (const field of fields(file, message.start, message.end, 'an initializer')) {
    if (field.number === 1) dims.push(...integers(file, field));
    else if (field.number === 2) type = Number(field.value);
    else if (field.number === 8) name = text(file, field);
    else if ((field.number === 4 || field.number === 9) && field.wire === 2) bytes = field;
    else if (field.number === 14) external = field.value === 1n;
  }
  return { name, type: typeName(type), dims, bytes, external };
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

interface Field {
  readonly number: number;
  readonly wire: number;
  /** Of a varint. */
  readonly value: bigint;
  /** Of bytes, text and messages. */
  readonly start: number;
  readonly end: number;
}

function* fields(file: FileBytes, start: number, end: number, what: string): Generator<Field> {
  let at = start;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= end) throw new OnnxFileError(`ends inside ${what}`);
      const byte = file.byte(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new OnnxFileError(`is damaged: ${what} has a number of more than ten bytes`);
  };
  while (at < end) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wire = Number(tag & 7n);
    let value = 0n;
    let length = 0;
    if (wire === 0) value = varint();
    else if (wire === 1) length = 8;
    else if (wire === 2) length = Number(varint());
    else if (wire === 5) length = 4;
    else throw new OnnxFileError(`is no ONNX model: ${what} is not protobuf`);
    if (length < 0 || number < 1) throw new OnnxFileError(`is no ONNX model: ${what} is not protobuf`);
    if (at + length > end) {
      const missing = at + length - end;
      throw new OnnxFileError(`is cut off or damaged: ${missing} bytes of ${what} are missing`);
    }
    yield { number, wire, value, start: at, end: at + length };
    at += length;
  }
}

/** Repeated integers, packed or not. */
function integers(file: FileBytes, field: Field): number[] {
  if (field.wire === 0) return [Number(field.value)];
  const values: number[] = [];
  let value = 0;
  let factor = 1;
  for (const byte of file.read(field.start, Math.min(field.end, field.start + MAX_NAME))) {
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte >= 0x80) continue;
    values.push(value);
    value = 0;
    factor = 1;
  }
  return values;
}

function text(file: FileBytes, field: Field): string {
  return Buffer.from(file.read(field.start, Math.min(field.end, field.start + MAX_NAME))).toString('utf8');
}

function typeName(type: number): string {
  return TYPE_NAMES.get(type) ?? `other(${type})`;
}

/** Reads anywhere in a file through a small window. */
class FileBytes {
  readonly size: number;
  readonly #file: number;
  readonly #window = Buffer.alloc(4096);
  #start = 0;
  #length = 0;

  constructor(path: string) {
    this.#file = openSync(path, 'r');
    this.size = fstatSync(this.#file).size;
  }

  byte(at: number): number {
    if (at < this.#start || at >= this.#start + this.#length) {
      this.#start = at;
      this.#length = readSync(this.#file, this.#window, 0, this.#window.length, at);
    }
    const byte = this.#window[at - this.#start];
    if (byte === undefined || at >= this.#start + this.#length)
      throw new OnnxFileError('was cut off while it was read');
    return byte;
  }

  read(start: number, end: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(end - start);
    let done = 0;
    while (done < bytes.length) {
      const count = readSync(this.#file, bytes, done, bytes.length - done, start + done);
      if (count === 0) throw new OnnxFileError('was cut off while it was read');
      done += count;
    }
    return bytes;
  }

  close(): void {
    closeSync(this.#file);
  }
}
