import { crc32, deflateRawSync } from 'node:zlib';
import { GraphBuilder } from './graph.ts';
import type { GivenModel } from './model-dir-rig.ts';

/** Samples of a frame, as in Kokoro. */
const HOP = 600;
const RATE = 24_000;

export interface TinyKokoroOptions {
  readonly name?: string;
  readonly styles?: readonly string[];
  /** Values of each style; the first is the pitch in Hz. */
  readonly style?: (style: string, phonemes: number) => number;
}

/**
 * Returns a model with the declarations of kokoro-onnx's file. Each token lasts as many frames as its number has tens,
 * at least one, and the sound is a tone of the pitch that is the style's first number.
 */
export function tinyKokoro({
  name = 'kokoro',
  styles = ['af_one', 'bm_two', 'jf_three'],
  style = () => 150,
}: TinyKokoroOptions = {}): GivenModel {
  const graph = new GraphBuilder();
  const tokens = graph.input('tokens', [1, 'sequence_length'], 'int64');
  const numbers = graph.input('style', [1, 256]);
  const speed = graph.input('speed', [1]);
  const float = graph.op('Squeeze', [graph.op('Cast', [tokens], { to: 1 }), graph.integers([0])]);
  const tens = graph.op('Div', [graph.op('Mul', [float, graph.weight([0.1], [])]), speed]);
  const frames = graph.op('Clip', [graph.op('Round', [tens]), graph.weight([1], [])]);
  const count = graph.op('Mul', [graph.op('ReduceSum', [frames], { keepdims: 0 }), graph.weight([HOP], [])]);
  const times = graph.op('Range', [graph.weight([0], []), count, graph.weight([1], [])]);
  const hz = graph.op('Gather', [graph.op('Squeeze', [numbers, graph.integers([0])]), graph.integers([0])]);
  const turns = graph.op('Mul', [graph.op('Mul', [times, graph.weight([(2 * Math.PI) / RATE], [])]), hz]);
  graph.output(graph.op('Mul', [graph.op('Sin', [turns]), graph.weight([0.4], [])]), 'audio', [
    'audio_length',
  ]);
  const phonemes = [...' .,?!;:abdefhijklmnoprstuvwzðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒˈˌːθ'];
  const pack = (one: string): Float32Array =>
    Float32Array.from({ length: 510 * 256 }, (_, i) => (i % 256 === 0 ? style(one, 1 + i / 256) : 0));
  return {
    name,
    contract: 'kokoro',
    bytes: graph.build(),
    beside: { vocab: Object.fromEntries(phonemes.map((one, i) => [one, i + 1])) },
    npz: npzOf(Object.fromEntries(styles.map((one) => [one, { shape: [510, 1, 256], data: pack(one) }]))),
  };
}

interface Given {
  readonly shape: readonly number[];
  readonly data: Float32Array | Float64Array;
}

/** Returns a .npz file as NumPy's `savez` and `savez_compressed` write it. */
export function npzOf(arrays: Readonly<Record<string, Given>>, packed = false): Buffer {
  const files: Buffer[] = [];
  const entries: Buffer[] = [];
  let at = 0;
  for (const [name, { shape, data }] of Object.entries(arrays)) {
    const type = data instanceof Float32Array ? '<f4' : '<f8';
    const head = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
    const length = Buffer.alloc(2);
    length.writeUInt16LE(head.length + 1);
    const content = Buffer.concat([
      Buffer.from('\x93NUMPY\x01\x00', 'latin1'),
      length,
      Buffer.from(`${head}\n`, 'latin1'),
      new Uint8Array(data.buffer),
    ]);
    const bytes = packed ? deflateRawSync(content) : content;
    const file = Buffer.from(`${name}.npy`);
    // Method, time, date, CRC, sizes, length of the name: the same in both headers.
    const shared = Buffer.alloc(22);
    shared.writeUInt16LE(packed ? 8 : 0, 2);
    shared.writeUInt32LE(crc32(content), 8);
    shared.writeUInt32LE(bytes.length, 12);
    shared.writeUInt32LE(content.length, 16);
    shared.writeUInt16LE(file.length, 20);
    // NumPy leaves room for sizes of 64 bits in the local header.
    const extra = Buffer.alloc(20);
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(16, 2);
    const local = Buffer.concat([word(0x04034b50), half(45), shared, half(extra.length), file, extra, bytes]);
    const where = Buffer.alloc(16);
    where.writeUInt32LE(at, 12);
    entries.push(Buffer.concat([word(0x02014b50), half(45), half(45), shared, where, file]));
    files.push(local);
    at += local.length;
  }
  const list = Buffer.concat(entries);
  const count = half(entries.length);
  const end = [word(0x06054b50), half(0), half(0), count, count, word(list.length), word(at), half(0)];
  return Buffer.concat([...files, list, ...end]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function half(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
