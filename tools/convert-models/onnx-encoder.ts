import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { ONNX_TYPES, type OnnxType } from '@semblance/vision/models/onnx-types';

/**
 * A tensor of an ONNX model. This file writes the small part of onnx.proto3 that these networks need. Field numbers
 * are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (IR version 8, default operator set 13).
 */
export interface OnnxTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: Float32Array | Float16Array | BigInt64Array;
  /** Name of a file beside the model that contains the data; then `data` only determines the type. */
  readonly location?: string;
}

export type OnnxAttribute =
  | number
  | string
  | readonly number[]
  | { readonly float: number }
  | { readonly floats: readonly number[] };

export interface OnnxNode {
  readonly opType: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
}

export interface OnnxValue {
  readonly name: string;
  /** Sizes; a name stands for a size that is known only when the model runs. */
  readonly dims: readonly (number | string)[];
  /** Default: float32. */
  readonly type?: OnnxType;
}

export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  readonly initializers: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

const IR_VERSION = 8;
const OPSET = 13;
const EXTERNAL = 1;
const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, floats: 6, ints: 7 } as const;

/** Encodes a graph as a serialized ONNX ModelProto. */
export function encodeOnnxModel(graph: OnnxGraph): Uint8Array<ArrayBuffer> {
  const model = new BinaryWriter();
  model.tag(1, WireType.Varint).int64(IR_VERSION);
  model.tag(2, WireType.LengthDelimited).string('semblance');
  message(model, 7, (w) => writeGraph(w, graph));
  message(model, 8, (w) => w.tag(2, WireType.Varint).int64(OPSET));
  return model.finish() as Uint8Array<ArrayBuffer>;
}

function message(writer: BinaryWriter, field: number, body: (writer: BinaryWriter) => void): void {
  writer.tag(field, WireType.LengthDelimited).fork();
  body(writer);
  writer.join();
}

function text(writer: BinaryWriter, field: number, value: string): void {
  writer.tag(field, WireType.LengthDelimited).string(value);
}

function writeGraph(writer: BinaryWriter, graph: OnnxGraph): void {
  for (const node of graph.nodes) message(writer, 1, (w) => writeNode(w, node));
  text(writer, 2, graph.name);
  for (const tensor of graph.initializers) message(writer, 5, (w) => writeTensor(w, tensor));
  for (const value of graph.inputs) message(writer, 11, (w) => writeValue(w, value));
  for (const value of graph.outputs) message(writer, 12, (w) => writeValue(w, value));
}

function writeNode(writer: BinaryWriter, node: OnnxNode): void {
  for (const input of node.inputs) text(writer, 1, input);
  for (const output of node.outputs) text(writer, 2, output);
  text(writer, 3, node.outputs[0] ?? '');
  text(writer, 4, node.opType);
  for (const [name, value] of Object.entries(node.attributes ?? {})) {
    message(writer, 5, (w) => writeAttribute(w, name, value));
  }
}

function writeAttribute(writer: BinaryWriter, name: string, value: OnnxAttribute): void {
  text(writer, 1, name);
  let type: number;
  if (typeof value === 'number') {
    writer.tag(3, WireType.Varint).int64(value);
    type = ATTRIBUTE_TYPE.int;
  } else if (typeof value === 'string') {
    text(writer, 4, value);
    type = ATTRIBUTE_TYPE.string;
  } else if ('float' in value) {
    writer.tag(2, WireType.Bit32).float(value.float);
    type = ATTRIBUTE_TYPE.float;
  } else if ('floats' in value) {
    for (const item of value.floats) writer.tag(7, WireType.Bit32).float(item);
    type = ATTRIBUTE_TYPE.floats;
  } else {
    for (const item of value) writer.tag(8, WireType.Varint).int64(item);
    type = ATTRIBUTE_TYPE.ints;
  }
  writer.tag(20, WireType.Varint).int32(type);
}

function writeTensor(writer: BinaryWriter, tensor: OnnxTensor): void {
  for (const dim of tensor.dims) writer.tag(1, WireType.Varint).int64(dim);
  writer.tag(2, WireType.Varint).int32(ONNX_TYPES[elementType(tensor.data)]);
  text(writer, 8, tensor.name);
  const { location } = tensor;
  if (location !== undefined) {
    message(writer, 13, (w) => {
      text(w, 1, 'location');
      text(w, 2, location);
    });
    writer.tag(14, WireType.Varint).int32(EXTERNAL);
    return;
  }
  // raw_data is little-endian by definition, and so are all machines that Node.js runs on here.
  const { buffer, byteOffset, byteLength } = tensor.data;
  writer
    .tag(9, WireType.LengthDelimited)
    .bytes(new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength));
}

function elementType(data: OnnxTensor['data']): OnnxType {
  if (data instanceof Float32Array) return 'float32';
  return data instanceof BigInt64Array ? 'int64' : 'float16';
}

function writeValue(writer: BinaryWriter, value: OnnxValue): void {
  text(writer, 1, value.name);
  message(writer, 2, (type) => {
    message(type, 1, (tensor) => {
      tensor.tag(1, WireType.Varint).int32(ONNX_TYPES[value.type ?? 'float32']);
      message(tensor, 2, (shape) => {
        for (const dim of value.dims) {
          message(shape, 1, (d) => {
            if (typeof dim === 'string') text(d, 2, dim);
            else d.tag(1, WireType.Varint).int64(dim);
          });
        }
      });
    });
  });
}
