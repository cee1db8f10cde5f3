import type { OnnxType } from '@semblance/vision/models/onnx-types';
import type { OnnxSummary, OnnxValueInfo } from '../onnx-file.ts';
import { type Contract, type Dim, describeSpec, shapesOf, type TensorSpec } from './contract.ts';

/** A tensor of a contract, and its name in a model. */
export interface BoundTensor {
  /** Name in the contract. */
  readonly role: string;
  /** Name in the model. */
  readonly name: string;
  readonly type: OnnxType;
  /** Shape for a batch of one. */
  readonly dims: readonly number[];
  /** Value of its elements in the first run. */
  readonly first: number;
  /** Whether the first size is open. */
  readonly batch: boolean;
  /** Whether some of its values may be infinite or NaN. */
  readonly partly?: boolean;
}

export interface Fit {
  readonly inputs: readonly BoundTensor[];
  readonly outputs: readonly BoundTensor[];
  /** Every mismatch, tensor by tensor, with expected and found; empty when everything fits. */
  readonly faults: readonly string[];
}

/**
 * Compares the tensors of a model with its contract. Sizes that the model leaves open are checked in its first run.
 */
export function bindTensors(
  contract: Contract,
  options: Readonly<Record<string, number>>,
  found: OnnxSummary,
): Fit {
  const { inputs, outputs } = contract.tensors(options, found);
  const faults: string[] = [];
  const bind = (kind: 'input' | 'output', specs: readonly TensorSpec[], values: readonly OnnxValueInfo[]) => {
    const assigned = assign(specs, values);
    return specs.flatMap((spec, index) => {
      const value = assigned.get(spec);
      if (!value) {
        if (spec.optional) return [];
        const which = spec.free ? `${kind} ${index + 1}` : `${kind} ${namesOf(spec).join(' or ')}`;
        faults.push(`${which}: expected ${describeSpec(spec)}, found ${list(values)}`);
        return [];
      }
      const bound = bindTensor(spec, value, kind === 'output');
      if (bound) return [bound];
      faults.push(`${kind} "${value.name}": expected ${describeSpec(spec)}, found ${describeValue(value)}`);
      return [];
    });
  };
  const bound = {
    inputs: bind('input', inputs, found.inputs),
    outputs: bind('output', outputs, found.outputs),
  };
  const wanted = new Set(assign(inputs, found.inputs).values());
  for (const value of found.inputs) {
    if (wanted.has(value)) continue;
    faults.push(`input "${value.name}": expected no such input, found ${describeValue(value)}`);
  }
  return { ...bound, faults };
}

function namesOf({ name, aliases = [] }: TensorSpec): string[] {
  return [name, ...aliases].map((each) => `"${each}"`);
}

/**
 * Returns the tensor of a model for each spec: by its name, else by an alias, or for a free one the next that no other
 * spec names.
 */
function assign(
  specs: readonly TensorSpec[],
  values: readonly OnnxValueInfo[],
): ReadonlyMap<TensorSpec, OnnxValueInfo> {
  const called = ({ name, aliases = [] }: TensorSpec) => [name, ...aliases];
  const named = new Set(specs.flatMap((spec) => (spec.free ? [] : called(spec))));
  const others = values.filter(({ name }) => !named.has(name));
  const found = new Map<TensorSpec, OnnxValueInfo>();
  for (const spec of specs) {
    const byName = () =>
      called(spec)
        .map((each) => values.find(({ name }) => name === each))
        .find((value) => value !== undefined);
    const value = spec.free ? others.shift() : byName();
    if (value) found.set(spec, value);
  }
  return found;
}

function bindTensor(spec: TensorSpec, value: OnnxValueInfo, output: boolean): BoundTensor | undefined {
  const type = spec.types.find((candidate) => candidate === value.type);
  if (!type) return undefined;
  const dims = shapesOf(spec).find((shape) => sameShape(shape, value.dims, output ? 'output' : 'input'));
  if (!dims) return undefined;
  return {
    role: spec.name,
    name: value.name,
    type,
    dims: dims.map(firstSize),
    first: spec.first ?? 0,
    batch: dims[0] === 'batch' && typeof value.dims?.[0] === 'string',
    ...(spec.partly && { partly: true }),
  };
}

function firstSize(dim: Dim): number {
  if (dim === 'batch') return 1;
  if (dim === 'any') return 0;
  if (typeof dim === 'number') return dim;
  return 'open' in dim ? dim.open : dim.ran;
}

/**
 * Returns whether a shape fits. An open size of the model fits, and is required where the contract has an open one.
 * An input of unknown rank does not fit, because it could not be fed safely.
 */
function sameShape(
  expected: readonly Dim[],
  found: OnnxValueInfo['dims'],
  as: 'input' | 'output' | 'ran',
): boolean {
  if (!found) return as !== 'input';
  if (found.length !== expected.length) return false;
  return expected.every((dim, i) => {
    if (typeof found[i] === 'string' || dim === 'any') return true;
    // An export may state a wrong size where it depends on another one, so only the real output counts.
    if (typeof dim === 'object' && as !== 'ran') return as === 'output';
    return found[i] === firstSize(dim);
  });
}

/** Returns how an output of the first run violates its contract; undefined if it fits. */
export function misfit(
  expected: BoundTensor,
  found: readonly number[],
  spec: TensorSpec | undefined,
): string | undefined {
  const shapes = [...(spec ? shapesOf(spec) : []), expected.dims];
  if (shapes.some((shape) => sameShape(shape, found, 'ran'))) return undefined;
  const wanted = spec ? describeSpec(spec) : `[${expected.dims.join(', ')}]`;
  return `output "${expected.name}": expected ${wanted}, found [${found.join(', ')}] when it ran`;
}

function describeValue({ type, dims }: OnnxValueInfo): string {
  return `${type} ${dims ? `[${dims.join(', ')}]` : 'of unknown shape'}`;
}

function list(values: readonly OnnxValueInfo[]): string {
  if (values.length === 0) return 'none';
  return values.map((value) => `"${value.name}" ${describeValue(value)}`).join('; ');
}
