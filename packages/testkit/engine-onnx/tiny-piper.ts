import { GraphBuilder } from './graph.ts';
import type { GivenModel } from './model-dir-rig.ts';

/** Samples of a frame, as in Piper's voices. */
const HOP = 256;
const PIPER_RATE = 22_050;

export interface TinyPiperOptions {
  readonly name?: string;
  /** Pitch of the voice, in Hz; the second speaker's is twice as high. */
  readonly hz?: number;
  readonly speakers?: boolean;
  /** Number of nodes `Ceil`: a voice has one. */
  readonly ceils?: 0 | 1 | 2;
  /** Changes of the file beside it. */
  readonly file?: Readonly<Record<string, unknown>>;
}

/**
 * Returns a voice with the declarations of Piper's `export_onnx.py`. A phoneme lasts ⌈(4 + |noise · noise_w|) ·
 * length⌉ frames, and the sound is a tone with a fourth of the noise. Both noises come from `RandomNormalLike`, and
 * the frames from `Ceil`.
 */
export function tinyPiper(given: TinyPiperOptions = {}): GivenModel {
  const { name = 'tiny', hz = 110, speakers = false, ceils = 1, file = {} } = given;
  const graph = new GraphBuilder();
  const ids = graph.input('input', ['batch_size', 'phonemes'], 'int64');
  graph.input('input_lengths', ['batch_size'], 'int64');
  const scales = graph.input('scales', [3]);
  const sid = speakers ? graph.input('sid', ['batch_size'], 'int64') : undefined;
  const float = (from: string): string => graph.op('Cast', [from], { to: 1 });
  const number = (value: number): string => graph.weight([value], [1]);
  const scale = (index: number): string => graph.op('Gather', [scales, graph.integers([index])]);
  const random = (like: string): string => graph.op('RandomNormalLike', [like], { dtype: 1 });

  const rows = graph.op('Unsqueeze', [float(ids), graph.integers([1])]);
  const spread = graph.op('Abs', [graph.op('Mul', [random(rows), scale(2)])]);
  const long = graph.op('Mul', [graph.op('Add', [spread, number(4)]), scale(1)]);
  const frames =
    ceils === 0 ? graph.op('Floor', [graph.op('Add', [long, number(1)])]) : graph.op('Ceil', [long]);
  const whole = ceils === 2 ? graph.op('Ceil', [frames]) : frames;

  const count = graph.op('Mul', [graph.op('ReduceSum', [whole], { keepdims: 0 }), graph.weight([HOP], [])]);
  const times = graph.op('Range', [graph.weight([0], []), count, graph.weight([1], [])]);
  const high = sid ? graph.op('Add', [float(sid), number(1)]) : number(1);
  const turns = graph.op('Mul', [graph.op('Mul', [times, number((2 * Math.PI * hz) / PIPER_RATE)]), high]);
  const tone = graph.op('Mul', [graph.op('Sin', [turns]), number(0.4)]);
  const noise = graph.op('Mul', [graph.op('Mul', [random(tone), scale(0)]), number(0.1)]);
  const sound = graph.op('Reshape', [graph.op('Add', [tone, noise]), graph.integers([1, 1, 1, -1])]);
  graph.output(sound, 'output', ['batch_size', 'time', 1, 'samples']);
  return { name, contract: 'piper', bytes: graph.build(), beside: piperFile(file) };
}

/** Returns the content of the file beside a voice, as Piper writes it, with phonemes of English. */
export function piperFile(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const phonemes = ['_', '^', '$', ..." !',-.:;?abcdefhijklmnopqrstuvwxyzæðŋɐɑɒɔəɚɛɜɡɪɹɾʃʊʌʒˈˌːθᵻ"];
  return {
    audio: { sample_rate: PIPER_RATE, quality: 'medium' },
    espeak: { voice: 'en-us' },
    inference: { noise_scale: 0.667, length_scale: 1, noise_w: 0.8 },
    phoneme_type: 'espeak',
    phoneme_map: {},
    phoneme_id_map: Object.fromEntries(phonemes.map((phoneme, id) => [phoneme, [id]])),
    num_symbols: 256,
    num_speakers: 1,
    speaker_id_map: {},
    piper_version: '1.0.0',
    language: { code: 'en_US' },
    ...changes,
  };
}
