import { type Field, type FileBytes, fields, OnnxFileError } from './onnx-fields.ts';

/** Types of ONNX tensors. */
export const FLOAT = 1;
export const INT64 = 7;
/** `AttributeProto.AttributeType.INT` */
const WHOLE = 2;

/** Returns the graph of a model. @throws OnnxFileError */
export function graphOf(file: FileBytes): Field {
  const graphs = [...fields(file, 0, file.size, 'the model')].filter(({ number }) => number === 7);
  const [graph] = graphs;
  if (!graph || graphs.length > 1) throw new OnnxFileError(`has ${graphs.length} graphs, not one`);
  return graph;
}

/** Returns a model whose graph consists of these parts instead. */
export function withGraph(file: FileBytes, graph: Field, parts: readonly Uint8Array[]): Uint8Array {
  const head = file.read(0, startOf(file, graph));
  return Buffer.concat([head, delimited(7, Buffer.concat(parts)), file.read(graph.end, file.size)]);
}

/** Returns where the tag of a message begins: at the end of the field before it. */
function startOf(file: FileBytes, graph: Field): number {
  let end = 0;
  for (const field of fields(file, 0, file.size, 'the model')) {
    if (field.start === graph.start) return end;
    end = field.end;
  }
  return end;
}

// Messages of onnx.proto3, written: the field numbers are those of github.com/onnx/onnx, onnx/onnx.proto.

/** Returns a node with one output. @param attributes whole numbers by name */
export function node(
  type: string,
  inputs: readonly string[],
  out: string,
  attributes: Readonly<Record<string, number>> = {},
): Uint8Array {
  const given = Object.entries(attributes).map(([name, value]) =>
    delimited(
      5,
      Buffer.concat([string(1, name), varint(3 << 3), varint(value), varint(20 << 3), varint(WHOLE)]),
    ),
  );
  return delimited(
    1,
    Buffer.concat([
      ...inputs.map((one) => string(1, one)),
      string(2, out),
      string(3, out),
      string(4, type),
      ...given,
    ]),
  );
}

/** Returns an initializer. */
export function tensor(name: string, type: number, dims: readonly number[], data: Uint8Array): Uint8Array {
  return delimited(
    5,
    Buffer.concat([
      ...dims.flatMap((dim) => [varint(1 << 3), varint(dim)]),
      varint(2 << 3),
      varint(type),
      string(8, name),
      delimited(9, data),
    ]),
  );
}

/** Returns an output of float32 whose shape follows from the graph. */
export function output(name: string): Uint8Array {
  const type = delimited(1, Buffer.concat([varint(1 << 3), varint(FLOAT)]));
  return delimited(12, Buffer.concat([string(1, name), delimited(2, type)]));
}

function string(field: number, value: string): Uint8Array {
  return delimited(field, Buffer.from(value, 'utf8'));
}

function delimited(field: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest]);
    bytes.push((rest % 128) | 128);
  }
}
