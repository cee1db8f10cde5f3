import { ModelConversionError } from './conversion-error.ts';
import type { TfjsNode } from './tfjs-model.ts';

/** Returns the name of an input. @throws ModelConversionError when there is none */
export function input(node: TfjsNode, index: number): string {
  const name = node.inputs[index];
  if (name === undefined) throw new ModelConversionError(`${node.name}: input ${index} missing`);
  return name;
}

/** Returns the operations that are fused into a convolution, in order. */
export function fusedOps(node: TfjsNode): string[] {
  return (node.attributes.fused_ops?.list?.s ?? []).map((op) => Buffer.from(op, 'base64').toString());
}

/** Returns height and width from an NHWC attribute. */
export function spatial(node: TfjsNode, attribute: string): number[] {
  const [, height = 1, width = 1] = node.attributes[attribute]?.list?.i ?? [];
  return [height, width];
}

/** Returns the padding by its ONNX name. @throws ModelConversionError when it is neither SAME nor VALID */
export function padding(node: TfjsNode): string {
  const value = Buffer.from(node.attributes.padding?.s ?? '', 'base64').toString();
  if (value === 'SAME') return 'SAME_UPPER';
  if (value === 'VALID') return 'VALID';
  throw new ModelConversionError(`${node.name}: padding ${value || 'missing'} is not supported`);
}
