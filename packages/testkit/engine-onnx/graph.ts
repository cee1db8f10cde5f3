import {
  encodeOnnxModel,
  type OnnxAttribute,
  type OnnxNode,
  type OnnxTensor,
  type OnnxValue,
} from '@semblance/convert-models/onnx-encoder';

/** Builds a small ONNX graph, one operation after the other. */
export class GraphBuilder {
  readonly #nodes: OnnxNode[] = [];
  readonly #initializers: OnnxTensor[] = [];
  readonly #inputs: OnnxValue[] = [];
  readonly #outputs: OnnxValue[] = [];
  #count = 0;

  input(name: string, dims: OnnxValue['dims'], type: OnnxValue['type'] = 'float32'): string {
    this.#inputs.push({ name, dims, type });
    return name;
  }

  /** @param name of the operation, which errors of the runtime contain, and of its output */
  op(
    opType: string,
    inputs: readonly string[],
    attributes: Record<string, OnnxAttribute> = {},
    name?: string,
  ): string {
    const output = name ?? `${opType.toLowerCase()}_${this.#count++}`;
    this.#nodes.push({ opType, inputs, outputs: [output], attributes });
    return output;
  }

  weight(values: readonly number[] | Float32Array, dims: readonly number[], name?: string): string {
    return this.tensor({ name: name ?? `weight_${this.#count++}`, dims, data: Float32Array.from(values) });
  }

  tensor(tensor: OnnxTensor): string {
    this.#initializers.push(tensor);
    return tensor.name;
  }

  integers(values: readonly number[]): string {
    const name = `integers_${this.#count++}`;
    return this.tensor({
      name,
      dims: [values.length],
      data: BigInt64Array.from(values, (value) => BigInt(value)),
    });
  }

  output(from: string, name: string, dims: OnnxValue['dims'], type: OnnxValue['type'] = 'float32'): void {
    this.#nodes.push({ opType: 'Identity', inputs: [from], outputs: [name] });
    this.#outputs.push({ name, dims, type });
  }

  build(): Uint8Array<ArrayBuffer> {
    return encodeOnnxModel({
      name: 'test',
      nodes: this.#nodes,
      initializers: this.#initializers,
      inputs: this.#inputs,
      outputs: this.#outputs,
    });
  }
}
