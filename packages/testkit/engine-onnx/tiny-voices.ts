import { GraphBuilder } from './graph.ts';
import type { GivenModel } from './model-dir-rig.ts';

/** Models with the inputs and outputs of RVC's that compute something simple enough to check by hand. */

/** Samples that the tiny encoder passes on from each of its frames: every second of 320. */
export const PASSED = 160;

/** Each frame holds every second sample of its first 320, then zeros. */
export function tinyContentvec(width: 256 | 768 = 256, rank: 2 | 3 = 2): GivenModel {
  const graph = new GraphBuilder();
  const sound = graph.input('source', rank === 3 ? [1, 1, 'samples'] : [1, 'samples']);
  const waves = rank === 3 ? sound : graph.op('Unsqueeze', [sound, graph.integers([1])]);
  const weights = new Float32Array(width * 400);
  for (let channel = 0; channel < PASSED; channel++) weights[channel * 400 + 2 * channel] = 1;
  const heard = graph.op('Conv', [waves, graph.weight(weights, [width, 1, 400])], { strides: [320] });
  graph.output(graph.op('Transpose', [heard], { perm: [0, 2, 1] }), 'units', [1, 'frames', width]);
  return { contract: `contentvec_${width}`, bytes: graph.build() };
}

/**
 * Returns an encoder with the outputs of w-okada's file: `units9` as the tiny one of 256, `unit12` as the one of 768
 * at half its level, and `unit12s` as the latter at a third.
 */
export function tinyContentvec500(contract: 'contentvec_256' | 'contentvec_768'): GivenModel {
  const graph = new GraphBuilder();
  const sound = graph.input('audio', [1, 'samples']);
  const waves = graph.op('Unsqueeze', [sound, graph.integers([1])]);
  for (const [output, width, level] of [
    ['units9', 256, 1],
    ['unit12', 768, 1 / 2],
    ['unit12s', 768, 1 / 3],
  ] as const) {
    const weights = new Float32Array(width * 400);
    for (let channel = 0; channel < PASSED; channel++) weights[channel * 400 + 2 * channel] = level;
    const heard = graph.op('Conv', [waves, graph.weight(weights, [width, 1, 400])], { strides: [320] });
    graph.output(graph.op('Transpose', [heard], { perm: [0, 2, 1] }), output, [1, 'frames', width]);
  }
  return { contract, bytes: graph.build() };
}

export interface TinyVoiceOptions {
  /** Layout of the inputs; default: w-okada's. */
  readonly layout?: 'w-okada' | 'rvc';
  readonly name?: string;
  readonly width?: 256 | 768;
  readonly rate?: 32_000 | 40_000 | 48_000;
  readonly options?: Record<string, unknown>;
  /** Number of frames; default: any. */
  readonly frames?: number | string;
  /** Rank of `audio`, which differs between exports. */
  readonly rank?: 1 | 2 | 3;
  /** Number of streams; default: one. */
  readonly batch?: number | string;
}

function voice(
  { name = 'my-voice', width = 256, rate = 32_000, options = {}, rank = 3, batch = 1 }: TinyVoiceOptions,
  build: (graph: GraphBuilder) => string,
): GivenModel {
  const graph = new GraphBuilder();
  // 0 keeps the number of streams.
  const shape = { 1: [-1], 2: [0, -1], 3: [0, 1, -1] }[rank];
  const dims = { 1: ['samples'], 2: [batch, 'samples'], 3: [batch, 1, 'samples'] }[rank];
  graph.output(graph.op('Reshape', [build(graph), graph.integers(shape)]), 'audio', dims);
  const contract = width === 256 ? 'rvc_v1' : 'rvc_v2';
  return { name, contract, options: { sample_rate: rate, ...options }, bytes: graph.build() };
}

/** Returns a model that repeats the tiny encoder's samples, each for its duration. It uses no pitch. */
export function tinyEcho(given: TinyVoiceOptions = {}): GivenModel {
  const { width = 256, rate = 32_000, frames = 'frames' } = given;
  return voice(given, (graph) => {
    const feats = graph.input('feats', [1, frames, width]);
    graph.input('p_len', [1], 'int64');
    graph.input('sid', [1], 'int64');
    // The frames are doubled.
    const once = graph.op(
      'Slice',
      [feats, [0], [1_000_000], [1], [2]].map((part) =>
        typeof part === 'string' ? part : graph.integers(part),
      ),
    );
    const each = rate / 50;
    const hold = new Float32Array(width * each);
    for (let i = 0; i < each; i++) hold[Math.floor((i * PASSED) / each) * each + i] = 1;
    return graph.op('MatMul', [once, graph.weight(hold, [width, each])]);
  });
}

/** Gains of the speakers of the tone. */
export const GAINS = [0.1, 0.4] as const;

/** Names of the inputs that differ between the layouts. */
const NAMES = {
  'w-okada': { feats: 'feats', length: 'p_len', speaker: 'sid' },
  rvc: { feats: 'phone', length: 'phone_lengths', speaker: 'ds' },
} as const;

/**
 * Returns a model of a tone at `pitchf` from phase 0 on, with the gain gain[sid] · pitch / 255 · p_len / T. It is
 * silent where `pitchf` is 0. In the layout of RVC, 0.01 times the first row of `rnd` is added, each for its frame.
 */
export function tinyTone(given: TinyVoiceOptions = {}): GivenModel {
  const { width = 256, rate = 32_000, frames = 'frames', layout = 'w-okada', batch = 1 } = given;
  const names = NAMES[layout];
  return voice(given, (graph) => {
    const feats = graph.input(names.feats, [batch, frames, width]);
    const length = graph.input(names.length, [batch], 'int64');
    const pitch = graph.input('pitch', [batch, frames], 'int64');
    const hz = graph.input('pitchf', [batch, frames]);
    const speaker = graph.input(names.speaker, [batch], 'int64');
    const float = (from: string) => graph.op('Cast', [from], { to: 1 });
    const held = (values: string) =>
      graph.op('Reshape', [
        graph.op('Mul', [
          graph.op('Unsqueeze', [values, graph.integers([2])]),
          graph.weight(new Float32Array(rate / 100).fill(1), [1, 1, rate / 100]),
        ]),
        graph.integers([0, -1]),
      ]);
    const turns = graph.op('CumSum', [
      graph.op('Mul', [held(hz), graph.weight([1 / rate], [])]),
      graph.tensor({ name: 'axis', dims: [], data: BigInt64Array.of(1n) }),
    ]);
    const tone = graph.op('Sin', [graph.op('Mul', [turns, graph.weight([2 * Math.PI], [])])]);
    const count = graph.op('Gather', [graph.op('Shape', [feats]), graph.integers([1])]);
    const whole = graph.op('Div', [float(length), float(count)]);
    const gain = graph.op('Mul', [
      graph.op('Gather', [graph.weight([...GAINS], [2]), speaker]),
      graph.op('Mul', [whole, graph.weight([1 / 255], [])]),
    ]);
    const loud = graph.op('Mul', [held(float(pitch)), graph.op('Sign', [held(hz)])]);
    const gains = graph.op('Reshape', [gain, graph.integers([-1, 1])]);
    const sung = graph.op('Mul', [graph.op('Mul', [tone, loud]), gains]);
    if (layout === 'w-okada') return sung;
    const noise = graph.input('rnd', [batch, 192, frames]);
    const row = graph.op(
      'Gather',
      [noise, graph.tensor({ name: 'row', dims: [], data: BigInt64Array.of(0n) })],
      {
        axis: 1,
      },
    );
    return graph.op('Add', [sung, graph.op('Mul', [held(row), graph.weight([0.01], [])])]);
  });
}

/** Salience: the softmax of 20 times the mel bands, each put into the class `binOf` gives. */
export function tinyRmvpe(binOf: (band: number) => number, bands = 128): GivenModel {
  const graph = new GraphBuilder();
  const mel = graph.input('input', [1, bands, 'frames']);
  const byFrame = graph.op('Transpose', [mel], { perm: [0, 2, 1] });
  const steep = graph.op('Mul', [byFrame, graph.weight([20], [])]);
  const weights = new Float32Array(bands * 360);
  for (let band = 0; band < bands; band++) weights[band * 360 + binOf(band)] = 1;
  const shares = graph.op('Softmax', [steep], { axis: 2 });
  graph.output(graph.op('MatMul', [shares, graph.weight(weights, [bands, 360])]), 'output', [
    1,
    'frames',
    360,
  ]);
  return { contract: 'rmvpe', bytes: graph.build() };
}

/**
 * Returns a model of FCPE: the softmax of 20 times the mel bands, times what `hzOf` gives for each band, where the strongest
 * share is above the threshold, else 0.
 * @param counted whether it also takes the number of frames; its pitch is then multiplied by that number's share of all
 */
export function tinyFcpe(hzOf: (band: number) => number, counted = false): GivenModel {
  const graph = new GraphBuilder();
  const mel = graph.input('mel', [1, 'frames', 128]);
  const threshold = graph.input('threshold', [1]);
  const shares = graph.op('Softmax', [graph.op('Mul', [mel, graph.weight([20], [])])], { axis: 2 });
  const each = graph.weight(
    Float32Array.from({ length: 128 }, (_, band) => hzOf(band)),
    [128, 1],
  );
  const hz = graph.op('MatMul', [shares, each]);
  const strongest = graph.op('ReduceMax', [shares], { axes: [2], keepdims: 1 });
  const sure = graph.op('Cast', [graph.op('Greater', [strongest, threshold])], { to: 1 });
  let pitch = graph.op('Mul', [hz, sure]);
  if (counted) {
    const count = graph.op('Cast', [graph.input('n_samples', [1], 'int64')], { to: 1 });
    const all = graph.op('Gather', [graph.op('Shape', [mel]), graph.integers([1])]);
    pitch = graph.op('Mul', [pitch, graph.op('Div', [count, graph.op('Cast', [all], { to: 1 })])]);
  }
  graph.output(pitch, 'pitchf', [1, 'frames', 1]);
  return { contract: 'fcpe', bytes: graph.build() };
}

/** Returns a model of RMVPE with sound as input: 1,000 Hz times each 160th sample that is above the threshold, else 0. */
export function tinyWaveformRmvpe(): GivenModel {
  const graph = new GraphBuilder();
  const sound = graph.input('waveform', [1, 'samples']);
  const threshold = graph.input('threshold', [1]);
  const waves = graph.op('Unsqueeze', [sound, graph.integers([1])]);
  const each = graph.op('Conv', [waves, graph.weight([1], [1, 1, 1])], { strides: [160] });
  const loud = graph.op('Cast', [graph.op('Greater', [each, threshold])], { to: 1 });
  const hz = graph.op('Mul', [graph.op('Mul', [each, loud]), graph.weight([1_000], [])]);
  graph.output(graph.op('Squeeze', [hz, graph.integers([1])]), 'pitchf', [1, 'frames']);
  return { contract: 'rmvpe', bytes: graph.build() };
}
