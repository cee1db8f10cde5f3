import type { OnnxValue } from '@semblance/convert-models/onnx-encoder';
import { GraphBuilder } from './graph.ts';

/** Models with the inputs and outputs of published ones that compute something simple enough to check by hand. */

export const LENGTH = 512;
export type FloatType = 'float32' | 'float16';

/** Returns pseudo-random numbers in [-1, 1), equal in every run (Lehmer's generator). */
export function noise(count: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (state * 48271) % 2147483647;
    return (state / 2147483647) * 2 - 1;
  });
}

export const EMBEDDING_WEIGHTS = noise(3 * LENGTH, 11);
export const EMBEDDING_OFFSET = noise(LENGTH, 12);

/** Embedding: means of red, green and blue of the crop, times a matrix, plus an offset. */
export function tinyArcface(batch: number | string = 'batch'): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input.1', [batch, 3, 112, 112]);
  const flat = graph.op('Flatten', [graph.op('GlobalAveragePool', [input])], { axis: 1 });
  const product = graph.op('MatMul', [flat, graph.weight(EMBEDDING_WEIGHTS, [3, LENGTH])]);
  graph.output(graph.op('Add', [product, graph.weight(EMBEDDING_OFFSET, [LENGTH])]), '683', [batch, LENGTH]);
  return graph.build();
}

/**
 * As {@link tinyArcface}, but a run fails with `message` in its error.
 * @param when `items`: with 8 items or more; `bright`: with a sample of 1 or more; `grey`: without a colour
 */
export function failingArcface(when: 'items' | 'bright' | 'grey', message: string): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input.1', ['batch', 3, 112, 112]);
  const flat = graph.op('Flatten', [graph.op('GlobalAveragePool', [input])], { axis: 1 });
  const product = graph.op('MatMul', [flat, graph.weight(EMBEDDING_WEIGHTS, [3, LENGTH])]);
  const sum = graph.op('Add', [product, graph.weight(EMBEDDING_OFFSET, [LENGTH])]);
  const largest = (of: string): string => graph.op('ReduceMax', [of], { keepdims: 0 });
  const index = {
    items: () =>
      graph.op('Div', [
        graph.op('Gather', [graph.op('Shape', [input]), graph.integers([0])]),
        graph.integers([8]),
      ]),
    bright: () => graph.op('Cast', [largest(input)], { to: 7 }),
    grey: () => {
      const [red, blue] = [0, 2].map((at) => graph.op('Gather', [input, graph.integers([at])], { axis: 1 }));
      const chroma = largest(graph.op('Abs', [graph.op('Sub', [red as string, blue as string])]));
      // 0 for the black of a first run. An index of -1 is the one value, too.
      const light = graph.op('Min', [graph.op('Ceil', [largest(input)]), graph.weight([1], [])]);
      return graph.op('Cast', [graph.op('Sub', [light, chroma])], { to: 7 });
    },
  }[when]();
  // The index is outside of the one value.
  const nothing = graph.op('Gather', [graph.weight([0], [1]), index], {}, message);
  graph.output(graph.op('Add', [sum, nothing]), '683', ['batch', LENGTH]);
  return graph.build();
}

export const COLOUR_WEIGHTS = noise(LENGTH * 3, 13).map((value) => 0.1 * value);
export const EMAP = noise(LENGTH * LENGTH, 14);
/** Share of the colour in the swapper's output; the rest is the target. */
export const COLOUR_SHARE = 0.6;

export interface TinySwapperOptions {
  readonly size?: number;
  readonly type?: FloatType;
  readonly batch?: number | string;
  /** Whether the model has an emap. Default: only at a size of 128. */
  readonly emap?: boolean;
  readonly names?: { readonly target: string; readonly source: string };
  readonly targetDims?: OnnxValue['dims'];
  /** Slope and offset of the colour: sigmoid of vector times matrix. */
  readonly range?: readonly [number, number];
  /** What is added to red, green and blue. */
  readonly tint?: readonly [number, number, number];
}

/** Output: target × (1 − share) + colour × share; the colour is a function of the identity's vector. */
export function tinySwapper(options: TinySwapperOptions = {}): Uint8Array<ArrayBuffer> {
  const { size = 128, type = 'float32', batch = 1, names = { target: 'target', source: 'source' } } = options;
  const { range = [1, 0] } = options;
  const graph = new GraphBuilder();
  const asFloat = (name: string): string => (type === 'float16' ? graph.op('Cast', [name], { to: 1 }) : name);
  const target = asFloat(graph.input(names.target, options.targetDims ?? [batch, 3, size, size], type));
  const source = asFloat(graph.input(names.source, [batch, LENGTH], type));
  const logits = graph.op('MatMul', [source, graph.weight(COLOUR_WEIGHTS, [LENGTH, 3])]);
  const colour = graph.op('Add', [
    graph.op('Mul', [graph.op('Sigmoid', [logits]), graph.weight([range[0] * COLOUR_SHARE], [])]),
    graph.weight([range[1] * COLOUR_SHARE], []),
  ]);
  const shaped = graph.op('Reshape', [colour, graph.integers([-1, 3, 1, 1])]);
  const kept = graph.op('Mul', [target, graph.weight([1 - COLOUR_SHARE], [])]);
  const plain = graph.op('Add', [kept, shaped]);
  const { tint } = options;
  const mixed = tint ? graph.op('Add', [plain, graph.weight(tint, [1, 3, 1, 1])]) : plain;
  const result = type === 'float16' ? graph.op('Cast', [mixed], { to: 10 }) : mixed;
  graph.output(result, 'output', [batch, 3, size, size], type);
  if (options.emap ?? size === 128) {
    if (type === 'float32') graph.weight(EMAP, [LENGTH, LENGTH], 'emap');
    else graph.tensor({ name: 'emap', dims: [LENGTH, LENGTH], data: new Float16Array(EMAP) });
  }
  return graph.build();
}

/**
 * A swapper whose source is a picture. Output: target × (1 − share) + mean of the source × share.
 * @param side of the source
 */
export function tinyPictureSwapper(side: number): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const target = graph.input('target', [1, 3, 256, 256]);
  const colour = graph.op('GlobalAveragePool', [graph.input('source', [1, 3, side, side])]);
  const kept = graph.op('Mul', [target, graph.weight([1 - COLOUR_SHARE], [])]);
  const taken = graph.op('Mul', [colour, graph.weight([COLOUR_SHARE], [])]);
  graph.output(graph.op('Add', [kept, taken]), 'output', [1, 3, 256, 256]);
  return graph.build();
}

/** Output: half of the vector, or another share. */
export function tinyConverter(share = 0.5): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input', [1, LENGTH]);
  graph.output(graph.op('Mul', [input, graph.weight([share], [])]), 'output', [1, LENGTH]);
  return graph.build();
}

/**
 * Output: input × gain + lift; with `weight`, × that as well.
 * @param weight shape of that input, which then stands before the picture; true: [1]
 * @param name of the picture
 */
export function tinyEnhancer(
  size: number,
  gain: number,
  lift: number,
  weight: boolean | readonly number[] = false,
  name = 'input',
): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const given = weight && graph.input('weight', weight === true ? [1] : weight, 'float64');
  let value = graph.op('Mul', [graph.input(name, [1, 3, size, size]), graph.weight([gain], [])]);
  if (given) value = graph.op('Mul', [value, graph.op('Cast', [given], { to: 1 })]);
  graph.output(graph.op('Add', [value, graph.weight([lift], [])]), 'output', [1, 3, size, size]);
  return graph.build();
}

/** 0 where green (the middle sample) exceeds red (the last one: blue comes first), 1 elsewhere. */
export function tinyXseg(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input', ['unk', 256, 256, 3]);
  const excess = graph.op('Conv', [
    graph.op('Transpose', [input], { perm: [0, 3, 1, 2] }),
    graph.weight([0, 1, -1], [1, 3, 1, 1]),
  ]);
  const steep = graph.op('Mul', [excess, graph.weight([-8], [])]);
  const share = graph.op('Add', [steep, graph.weight([2], [])]);
  graph.output(graph.op('Transpose', [share], { perm: [0, 2, 3, 1] }), 'output', ['unk', 256, 256, 1]);
  return graph.build();
}

/** Class 1 (skin) everywhere but where blue exceeds red clearly: there class 17 (hair). */
export function tinyBisenet(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const weights = new Float32Array(19 * 3);
  weights.set([-1, 0, 1], 17 * 3);
  const offset = new Float32Array(19).fill(-9);
  offset[1] = 1;
  offset[17] = 0;
  const input = graph.input('input', [1, 3, 512, 512]);
  const logits = graph.op('Conv', [input, graph.weight(weights, [19, 3, 1, 1]), graph.weight(offset, [19])]);
  graph.output(logits, 'out', [1, 19, 512, 512]);
  return graph.build();
}

/** The same points, on a grid of 64, whatever it sees; heat maps with one peak. */
export function tiny2dfan4(
  points: readonly (readonly [number, number])[],
  peak: number,
): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  graph.input('input', [1, 3, 256, 256]);
  graph.output(
    graph.weight(
      points.flatMap(([x, y]) => [x, y, 1]),
      [1, 68, 3],
    ),
    'landmarks',
    [1, 68, 3],
  );
  const map = new Float32Array(68 * 64 * 64);
  for (let i = 0; i < 68; i++) map[i * 4096 + 7] = peak;
  graph.output(graph.weight(map, [1, 68, 64, 64]), 'heatmaps', [1, 68, 64, 64]);
  return graph.build();
}

/** Output: half of the target's last three planes (the whole face), half how loud the sound is (sigmoid of its mean). */
export function tinyWav2lip(batch: number | string = 'batch'): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const source = graph.input('source', [batch, 1, 80, 16]);
  const target = graph.input('target', [batch, 6, 96, 96]);
  const face = graph.op('Slice', [target, graph.integers([3]), graph.integers([6]), graph.integers([1])]);
  const loudness = graph.op('Sigmoid', [graph.op('GlobalAveragePool', [source])]);
  const half = graph.weight([0.5], []);
  const mixed = graph.op('Mul', [graph.op('Add', [face, loudness]), half]);
  graph.output(mixed, 'output', [batch, 3, 96, 96]);
  return graph.build();
}

/** Output: half of the target, half how loud the sound is, times the weight (as {@link tinyWav2lip}). */
export function tinyEdtalk(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const source = graph.input('source', [1, 1, 80, 16]);
  const target = graph.input('target', [1, 3, 256, 256]);
  const weight = graph.input('weight', [1]);
  const loudness = graph.op('Sigmoid', [graph.op('GlobalAveragePool', [source])]);
  const told = graph.op('Mul', [loudness, graph.op('Reshape', [weight, graph.integers([1, 1, 1, 1])])]);
  const mixed = graph.op('Mul', [graph.op('Add', [target, told]), graph.weight([0.5], [])]);
  graph.output(mixed, 'output', [1, 3, 256, 256]);
  return graph.build();
}

/**
 * A DeepFaceLab model. Face: in_face × (1 − morph) + [0.2, 0.5, 0.8] × morph, blue first; without `morph` all of that
 * colour. The target's mask has the left three quarters, the face's the upper three.
 */
export function tinyDfm(size: number, morph: boolean): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('in_face:0', ['unk__1', size, size, 3]);
  const share = morph ? graph.input('morph_value:0', [1]) : graph.weight([1], [1]);
  const rest = graph.op('Sub', [graph.weight([1], [1]), share]);
  const own = graph.op('Mul', [graph.weight([0.2, 0.5, 0.8], [1, 1, 1, 3]), share]);
  const face = graph.op('Add', [graph.op('Mul', [input, rest]), own]);
  const mask = (within: (x: number, y: number) => boolean) => {
    const values = Float32Array.from({ length: size * size }, (_, i) =>
      within(i % size, Math.floor(i / size)) ? 1 : 0,
    );
    const items = graph.op('Mul', [
      graph.op('ReduceMean', [input], { axes: [1, 2, 3], keepdims: 1 }),
      graph.weight([0], []),
    ]);
    return graph.op('Add', [items, graph.weight(values, [1, size, size, 1])]);
  };
  const edge = 0.75 * size;
  graph.output(
    mask((x) => x < edge),
    'out_face_mask:0',
    ['unk__2', size, size, 1],
  );
  graph.output(face, 'out_celeb_face:0', ['unk__3', size, size, 3]);
  graph.output(
    mask((_, y) => y < edge),
    'out_celeb_face_mask:0',
    ['unk__4', size, size, 1],
  );
  return graph.build();
}
