import { seededRandom } from '@semblance/engine-builtin/random';
import type { SpeechEdit } from '../contracts/contract.ts';
import { FLOAT, graphOf, INT64, node, output, tensor, withGraph } from '../onnx-edit.ts';
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

/**
 * Returns the name of the tensor with the frames of each phoneme.
 * @throws OnnxFileError
 */
export function durationsOf(path: string, edit: SpeechEdit): string {
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
export function speechGraph(path: string, edit: SpeechEdit): Uint8Array {
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
    return withGraph(file, graph, parts);
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
function lengthsOf(nodes: readonly GraphNode[], edit: SpeechEdit): string {
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
