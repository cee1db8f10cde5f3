import type { OnnxNode, OnnxTensor } from './onnx-encoder.ts';

/**
 * Operations written as 1 × 1 convolutions. ONNX Runtime keeps tensors between convolutions in blocks of channels.
 * Its PRelu, its Pad and a product with one number per channel do not support this layout. So the tensor would be
 * reordered before and after each of them, which takes longer than the arithmetic.
 */
export interface Pixelwise {
  readonly nodes: readonly OnnxNode[];
  readonly initializers: readonly OnnxTensor[];
}

/** Channels in a block: 16 with AVX-512, 8 without. Other numbers of channels do not profit. */
const BLOCK = 16;

export const inBlocks = (channels: number): boolean => channels > 0 && channels % BLOCK === 0;

/** Returns a PRelu with one slope per channel, as x + (1 - slope) × relu(-x). */
export function pixelwisePrelu(x: string, slopes: Float32Array, output: string): Pixelwise {
  const [negated, below, difference] = ['negated', 'below', 'difference'].map(
    (part) => `${output}/${part}`,
  ) as [string, string, string];
  const opposite = scaled(x, new Float32Array(slopes.length).fill(-1), negated);
  const excess = scaled(
    below,
    slopes.map((slope) => 1 - slope),
    difference,
  );
  return {
    nodes: [
      opposite.node,
      { opType: 'Relu', inputs: [negated], outputs: [below] },
      excess.node,
      { opType: 'Add', inputs: [difference, x], outputs: [output] },
    ],
    initializers: [opposite.weights, excess.weights],
  };
}

/** Returns a Pad that adds channels of zeros before and after the existing ones. */
export function pixelwisePad(
  x: string,
  channels: { readonly before: number; readonly own: number; readonly after: number },
  output: string,
): Pixelwise {
  const { before, own, after } = channels;
  const all = before + own + after;
  const data = new Float32Array(all * own);
  for (let i = 0; i < own; i++) data[(before + i) * own + i] = 1;
  const { node, weights } = convolution(x, { dims: [all, own, 1, 1], data }, 1, output);
  return { nodes: [node], initializers: [weights] };
}

function scaled(x: string, factors: Float32Array, output: string) {
  return convolution(x, { dims: [factors.length, 1, 1, 1], data: factors }, factors.length, output);
}

function convolution(x: string, filter: Omit<OnnxTensor, 'name'>, group: number, output: string) {
  const name = `${output}/weights`;
  const attributes = { kernel_shape: [1, 1], group };
  const node: OnnxNode = { opType: 'Conv', inputs: [x, name], outputs: [output], attributes };
  return { node, weights: { name, ...filter } };
}
