import { z } from 'zod';

/** One operation of a TensorFlow.js graph model. Attributes are in TensorFlow's form, protobuf as JSON. */
export interface TfjsNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly attributes: Readonly<Record<string, TfjsAttribute>>;
}

export interface TfjsWeight {
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

export interface TfjsModel {
  readonly nodes: readonly TfjsNode[];
  readonly weights: ReadonlyMap<string, TfjsWeight>;
}

const attribute = z.object({
  s: z.string().optional(),
  b: z.boolean().optional(),
  f: z.number().optional(),
  i: z.union([z.string(), z.number()]).optional(),
  shape: z.object({ dim: z.array(z.object({ size: z.coerce.number() })).default([]) }).optional(),
  list: z.object({ i: z.array(z.coerce.number()).optional(), s: z.array(z.string()).optional() }).optional(),
});
export type TfjsAttribute = z.infer<typeof attribute>;

const document = z.object({
  modelTopology: z.object({
    node: z.array(
      z.object({
        name: z.string(),
        op: z.string(),
        input: z.array(z.string()).default([]),
        attr: z.record(z.string(), attribute).default({}),
      }),
    ),
  }),
  weightsManifest: z.array(
    z.object({
      weights: z.array(
        z.object({
          name: z.string(),
          shape: z.array(z.number().int().nonnegative()),
          dtype: z.enum(['float32', 'int32']),
          quantization: z
            .union([
              z.object({ dtype: z.literal('float16') }),
              z.object({ dtype: z.literal('uint8'), min: z.number(), scale: z.number() }),
            ])
            .optional(),
        }),
      ),
    }),
  ),
});

/**
 * Reads a TensorFlow.js graph model: the text of its `model.json` and the bytes of its only weight file.
 * Half-precision, quantised and integer weights become float32.
 * @throws Error when the document is invalid or the weight file has another length than the document declares
 */
export function readTfjsModel(json: string, weightBytes: Uint8Array): TfjsModel {
  const parsed = document.parse(JSON.parse(json));
  const weights = new Map<string, TfjsWeight>();
  // The copy aligns the offsets, whatever buffer contains the bytes.
  const bytes = new Uint8Array(weightBytes).buffer;
  let offset = 0;
  for (const weight of parsed.weightsManifest.flatMap((group) => group.weights)) {
    const count = weight.shape.reduce((product, dim) => product * dim, 1);
    const { quantization } = weight;
    const size = count * (quantization ? { float16: 2, uint8: 1 }[quantization.dtype] : 4);
    if (offset + size > bytes.byteLength) throw new Error(`weight file ends inside ${weight.name}`);
    const part = bytes.slice(offset, offset + size);
    offset += size;
    let data: Float32Array;
    if (quantization?.dtype === 'float16') data = Float32Array.from(new Float16Array(part));
    else if (quantization)
      data = Float32Array.from(new Uint8Array(part), (step) => step * quantization.scale + quantization.min);
    else if (weight.dtype === 'int32') data = Float32Array.from(new Int32Array(part));
    else data = new Float32Array(part);
    weights.set(weight.name, { dims: weight.shape, data });
  }
  if (offset !== bytes.byteLength)
    throw new Error(`weight file is ${bytes.byteLength - offset} bytes too long`);
  const nodes = parsed.modelTopology.node.map((node) => ({
    name: node.name,
    op: node.op,
    // Control inputs (^name) only order side effects; ":0" denotes the first output.
    inputs: node.input.filter((input) => !input.startsWith('^')).map((input) => input.replace(/:0$/, '')),
    attributes: node.attr,
  }));
  return { nodes, weights };
}
