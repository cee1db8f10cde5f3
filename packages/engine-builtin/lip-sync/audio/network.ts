/** A network with one hidden layer of rectified units. Matrices have one row of inputs per unit. */
export interface Network {
  readonly hidden: number;
  readonly mean: Float32Array;
  readonly scale: Float32Array;
  readonly inner: Float32Array;
  readonly innerBias: Float32Array;
  readonly outer: Float32Array;
  readonly outerBias: Float32Array;
}

/** Each array as base64 of little-endian 32-bit floats. */
export type EncodedNetwork = Readonly<Record<(typeof ARRAYS)[number], string>>;

const ARRAYS = ['mean', 'scale', 'inner', 'innerBias', 'outer', 'outerBias'] as const;

/** @param input is changed: normalised to mean 0 and variance 1 */
export function runNetwork(network: Network, input: Float32Array, out: Float32Array): void {
  const { hidden, mean, scale, inner, innerBias, outer, outerBias } = network;
  const inputs = mean.length;
  for (let i = 0; i < inputs; i++)
    input[i] = ((input[i] as number) - (mean[i] as number)) * (scale[i] as number);
  out.set(outerBias);
  for (let h = 0; h < hidden; h++) {
    let sum = innerBias[h] as number;
    const row = h * inputs;
    for (let i = 0; i < inputs; i++) sum += (inner[row + i] as number) * (input[i] as number);
    if (sum <= 0) continue;
    for (let o = 0; o < outerBias.length; o++)
      out[o] = (out[o] as number) + (outer[o * hidden + h] as number) * sum;
  }
}

export function encodeNetwork(network: Network): EncodedNetwork {
  return Object.fromEntries(ARRAYS.map((name) => [name, encodeFloats(network[name])])) as EncodedNetwork;
}

export function decodeNetwork(hidden: number, arrays: EncodedNetwork): Network {
  return {
    hidden,
    mean: decodeFloats(arrays.mean),
    scale: decodeFloats(arrays.scale),
    inner: decodeFloats(arrays.inner),
    innerBias: decodeFloats(arrays.innerBias),
    outer: decodeFloats(arrays.outer),
    outerBias: decodeFloats(arrays.outerBias),
  };
}

export function encodeFloats(values: ArrayLike<number>): string {
  const bytes = Buffer.alloc(values.length * 4);
  for (let i = 0; i < values.length; i++) bytes.writeFloatLE(values[i] as number, i * 4);
  return bytes.toString('base64');
}

export function decodeFloats(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
}
