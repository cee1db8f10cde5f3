import { seededRandom } from '@semblance/engine-builtin/random';
import type { GraphEdit } from '../contracts/contract.ts';
import { type Field, FileBytes, fields, OnnxFileError, text } from '../onnx-fields.ts';

/**
 * Number of values of the fixed noise. It is prime, so that the rows of a tensor, which are as long as the sentence,
 * begin at different places in it.
 */
const NOISE_LENGTH = 65_521;
const NOISE = 'semblance_noise';
const LENGTH = 'semblance_noise_length';
const ZERO = 'semblance_zero';
const ONE = 'semblance_one';
/** Types of ONNX tensors. */
const FLOAT = 1;
const INT64 = 7;

/**
 * Returns the name of the tensor with the frames of each phoneme.
 * @throws OnnxFileError
 */
export function durationsOf(path: string, edit: GraphEdit): string {
  const file = new FileBytes(path);
  try {
    return lengthsOf([...nodesOf(file, graphOf(file))], edit);
  } finally {
    file.close();
  }
}

/**
 * Returns a voice as it is loaded; its file stays as it is. It differs in two ways:
 * - The frames of each phoneme are an output too.
 * - Noise is the same in every run: instead of a random number each `RandomNormalLike` gives the next of a fixed list
 *   of normally distributed ones. With random noise the same job would give another file.
 * @throws OnnxFileError
 */
export function speechGraph(path: string, edit: GraphEdit): Uint8Array {
  const file = new FileBytes(path);
  try {
    const graph = graphOf(file);
    const nodes = [...nodesOf(file, graph)];
    const durations = lengthsOf(nodes, edit);
    const parts: Uint8Array[] = [];
    let from = graph.start;
    for (const node of nodes) {
      if (node.type !== 'RandomNormalLike') continue;
      parts.push(file.read(from, node.from), ...fixedNoise(node));
      from = node.to;
    }
    if (from > graph.start) parts.push(...constants());
    parts.push(file.read(from, graph.end));
    if (!isOutput(file, graph, durations)) parts.push(output(durations));
    const tagAt = startOf(file, graph);
    const head = file.read(0, tagAt);
    return Buffer.concat([head, delimited(7, Buffer.concat(parts)), file.read(graph.end, file.size)]);
  } finally {
    file.close();
  }
}

interface GraphNode {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** The bytes of the node in the file, with the tag. */
  readonly from: number;
  readonly to: number;
}

function graphOf(file: FileBytes): Field {
  const graphs = [...fields(file, 0, file.size, 'the model')].filter(({ number }) => number === 7);
  const [graph] = graphs;
  if (!graph || graphs.length > 1) throw new OnnxFileError(`has ${graphs.length} graphs, not one`);
  return graph;
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

function* nodesOf(file: FileBytes, graph: Field): Generator<GraphNode> {
  let from = graph.start;
  for (const field of fields(file, graph.start, graph.end, 'the graph')) {
    if (field.number === 1) {
      const parts = [...fields(file, field.start, field.end, 'a node')];
      const texts = (number: number) =>
        parts.filter((part) => part.number === number).map((part) => text(file, part));
      yield { type: texts(4)[0] ?? '', inputs: texts(1), outputs: texts(2), from, to: field.end };
    }
    from = field.end;
  }
}

/**
 * Returns the tensor with the frames of each phoneme. In a voice of Piper it is the output of the only `Ceil`, as its
 * own `patch_voice_with_alignment.py` finds it; in Kokoro it is the `Clip` after the only `Round`.
 */
function lengthsOf(nodes: readonly GraphNode[], edit: GraphEdit): string {
  // Their noise would not be the same in every run.
  const other = nodes.find(
    ({ type }) => /^(Random|Multinomial|Bernoulli)/.test(type) && type !== 'RandomNormalLike',
  );
  if (other)
    throw new OnnxFileError(`draws random numbers with ${other.type}, so that no job could be repeated`);
  const [type, voice] = edit === 'piper' ? ['Ceil', 'a voice of Piper'] : ['Round', 'Kokoro'];
  const found = nodes.filter((node) => node.type === type);
  const name = found[0]?.outputs[0];
  if (name === undefined || found.length > 1) {
    throw new OnnxFileError(
      `does not tell the lengths of its phonemes: it has ${found.length} nodes ${type}, and ${voice} has one`,
    );
  }
  if (edit === 'piper') return name;
  const least = nodes.find((node) => node.type === 'Clip' && node.inputs[0] === name)?.outputs[0];
  if (least !== undefined) return least;
  throw new OnnxFileError('does not tell the lengths of its phonemes: no Clip follows its Round');
}

function isOutput(file: FileBytes, graph: Field, name: string): boolean {
  for (const field of fields(file, graph.start, graph.end, 'the graph')) {
    if (field.number !== 12) continue;
    for (const part of fields(file, field.start, field.end, 'a value'))
      if (part.number === 1 && text(file, part) === name) return true;
  }
  return false;
}

/** Returns nodes that give the values of the fixed noise, over and over, in the shape of the node's input. */
function fixedNoise({ inputs: [like = ''], outputs: [out = ''] }: GraphNode): Uint8Array[] {
  const named = (what: string): string => `${out}/${what}`;
  return [
    node('Shape', [like], named('shape')),
    node('Size', [like], named('size')),
    node('Range', [ZERO, named('size'), ONE], named('range')),
    node('Mod', [named('range'), LENGTH], named('places')),
    node('Gather', [NOISE, named('places')], named('noise')),
    node('Reshape', [named('noise'), named('shape')], out),
  ];
}

function constants(): Uint8Array[] {
  const whole = (name: string, value: number): Uint8Array =>
    tensor(name, INT64, [], new Uint8Array(BigInt64Array.of(BigInt(value)).buffer));
  const noise = new Uint8Array(normalNoise(NOISE_LENGTH).buffer);
  return [
    tensor(NOISE, FLOAT, [NOISE_LENGTH], noise),
    whole(LENGTH, NOISE_LENGTH),
    whole(ZERO, 0),
    whole(ONE, 1),
  ];
}

/** Returns normally distributed numbers that are always the same (Box and Muller, 1958). */
function normalNoise(length: number): Float32Array<ArrayBuffer> {
  const next = seededRandom(NOISE);
  return Float32Array.from(
    { length },
    () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  );
}

// Messages of onnx.proto3, written: the field numbers are those of github.com/onnx/onnx, onnx/onnx.proto.

function node(type: string, inputs: readonly string[], out: string): Uint8Array {
  return delimited(
    1,
    Buffer.concat([...inputs.map((one) => string(1, one)), string(2, out), string(3, out), string(4, type)]),
  );
}

function tensor(name: string, type: number, dims: readonly number[], data: Uint8Array): Uint8Array {
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
function output(name: string): Uint8Array {
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
