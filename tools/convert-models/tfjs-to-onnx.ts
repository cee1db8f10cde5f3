import { ModelConversionError } from './conversion-error.ts';
import { encodeOnnxModel, type OnnxAttribute, type OnnxNode, type OnnxTensor } from './onnx-encoder.ts';
import { inBlocks, type Pixelwise, pixelwisePad, pixelwisePrelu } from './pixelwise.ts';
import type { TfjsModel, TfjsNode, TfjsWeight } from './tfjs-model.ts';
import { fusedOps, input, padding, spatial } from './tfjs-node.ts';

export interface ConvertOptions {
  readonly name: string;
  /** Output node of the TFJS graph → its name and shape in the ONNX graph. */
  readonly outputs: Readonly<Record<string, { readonly name: string; readonly dims: readonly number[] }>>;
}

/**
 * Converts a TensorFlow.js graph model (convolutional network, NHWC, batch of one) into a serialized ONNX model.
 * The input keeps its NHWC layout and its name. Inside, tensors are NCHW, as ONNX convolutions need them.
 * @throws ModelConversionError on an unsupported operation, attribute or layout
 */
export function convertTfjsToOnnx(model: TfjsModel, options: ConvertOptions): Uint8Array<ArrayBuffer> {
  return new Converter(model, options).convert();
}

class Converter {
  readonly #model: TfjsModel;
  readonly #options: ConvertOptions;
  readonly #nodes: OnnxNode[] = [];
  readonly #initializers = new Map<string, OnnxTensor>();
  /** Tensors that are NCHW here although they are NHWC in TensorFlow. All others have TensorFlow's layout. */
  readonly #channelsFirst = new Set<string>();
  /** Number of channels of these tensors, where it is known. */
  readonly #channels = new Map<string, number>();
  readonly #inputs: { name: string; dims: readonly number[] }[] = [];

  constructor(model: TfjsModel, options: ConvertOptions) {
    this.#model = model;
    this.#options = options;
  }

  convert(): Uint8Array<ArrayBuffer> {
    for (const node of this.#model.nodes) this.#node(node);
    const outputs = Object.entries(this.#options.outputs).map(([node, output]) => {
      this.#emit('Identity', [this.#channelsLast(node)], output.name);
      return output;
    });
    return encodeOnnxModel({
      name: this.#options.name,
      nodes: this.#nodes,
      initializers: [...this.#initializers.values()],
      inputs: this.#inputs,
      outputs,
    });
  }

  #node(node: TfjsNode): void {
    switch (node.op) {
      case 'Const':
        break;
      case 'Placeholder':
        this.#placeholder(node);
        break;
      case '_FusedConv2D':
      case 'Conv2D':
        this.#convolution(node, false);
        break;
      case 'DepthwiseConv2dNative':
      case 'FusedDepthwiseConv2dNative':
        this.#convolution(node, true);
        break;
      case '_FusedMatMul':
        this.#matMul(node);
        break;
      case 'Add':
      case 'AddV2':
        this.#elementwise('Add', node);
        break;
      case 'Mul':
        this.#elementwise('Mul', node);
        break;
      case 'Sub':
        this.#elementwise('Sub', node);
        break;
      case 'Minimum':
        this.#elementwise('Min', node);
        break;
      case 'Maximum':
        this.#elementwise('Max', node);
        break;
      case 'Relu':
      case 'Sigmoid':
      case 'Identity':
        this.#keepLayout(node.op, node, [input(node, 0)]);
        break;
      case 'Softmax':
        this.#keepLayout('Softmax', node, [input(node, 0)], { axis: -1 });
        break;
      case 'Prelu':
        this.#prelu(input(node, 0), input(node, 1), node.name);
        this.#inheritLayout(node);
        break;
      case 'MaxPool':
        this.#pool('MaxPool', node);
        break;
      case 'AvgPool':
        this.#pool('AveragePool', node);
        break;
      case 'Squeeze':
        this.#squeeze(node);
        break;
      case 'Pad':
        this.#pad(node);
        break;
      case 'Reshape':
        this.#reshape(node);
        break;
      case 'ConcatV2':
        this.#concat(node);
        break;
      case 'Mean':
        this.#mean(node);
        break;
      default:
        throw new ModelConversionError(
          `${this.#options.name}: operation ${node.op} (${node.name}) is not supported`,
        );
    }
  }

  #placeholder(node: TfjsNode): void {
    const dims = (node.attributes.shape?.shape?.dim ?? []).map(({ size }) => (size === -1 ? 1 : size));
    if (dims.length !== 4) throw new ModelConversionError(`${node.name}: input of rank ${dims.length}`);
    const name = `${node.name}_nhwc`;
    this.#inputs.push({ name, dims });
    this.#emit('Transpose', [name], node.name, { perm: [0, 3, 1, 2] });
    this.#channelsFirst.add(node.name);
  }

  #convolution(node: TfjsNode, depthwise: boolean): void {
    const [x, filterName, ...extra] = node.inputs;
    if (x === undefined || filterName === undefined)
      throw new ModelConversionError(`${node.name}: inputs missing`);
    if (!this.#channelsFirst.has(x))
      throw new ModelConversionError(`${node.name}: convolution of a flat tensor`);
    const filter = this.#constant(filterName);
    const [height = 0, width = 0, inChannels = 0, last = 0] = filter.dims;
    // TensorFlow: [h, w, in, out], depthwise [h, w, in, multiplier]. ONNX: [out, in / group, h, w].
    const outChannels = depthwise ? inChannels * last : last;
    const perGroup = depthwise ? 1 : inChannels;
    const weights = new Float32Array(outChannels * perGroup * height * width);
    for (let y = 0; y < height; y++) {
      for (let xx = 0; xx < width; xx++) {
        for (let i = 0; i < inChannels; i++) {
          for (let o = 0; o < last; o++) {
            const value = filter.data[((y * width + xx) * inChannels + i) * last + o] ?? 0;
            const row = depthwise ? i * last + o : o * inChannels + i;
            weights[(row * height + y) * width + xx] = value;
          }
        }
      }
    }
    const weightName = `${node.name}/weights`;
    this.#initializers.set(weightName, {
      name: weightName,
      dims: [outChannels, perGroup, height, width],
      data: weights,
    });
    const fused = fusedOps(node);
    const inputs = [x, weightName];
    if (fused.includes('BiasAdd')) inputs.push(this.#flat(extra.shift(), node));
    const activation = fused.find((op) => op !== 'BiasAdd');
    const result = activation ? `${node.name}/linear` : node.name;
    this.#emit('Conv', inputs, result, {
      kernel_shape: [height, width],
      strides: spatial(node, 'strides'),
      dilations: spatial(node, 'dilations'),
      group: depthwise ? inChannels : 1,
      auto_pad: padding(node),
    });
    this.#channelsFirst.add(result);
    if (activation === 'Prelu') this.#prelu(result, extra.shift() ?? '', node.name);
    else if (activation === 'Relu') this.#emit('Relu', [result], node.name);
    else if (activation === 'Relu6')
      this.#emit('Clip', [result, this.#scalar(0), this.#scalar(6)], node.name);
    else if (activation) throw new ModelConversionError(`${node.name}: fused ${activation} is not supported`);
    this.#channelsFirst.add(node.name);
    this.#channels.set(node.name, outChannels);
  }

  #prelu(x: string, slopes: string, output: string): void {
    const values = this.#channelValues(slopes);
    if (inBlocks(values.length) && this.#channelsFirst.has(x)) this.#add(pixelwisePrelu(x, values, output));
    else this.#emit('PRelu', [x, this.#perChannel(slopes)], output);
  }

  #matMul(node: TfjsNode): void {
    if (node.attributes.transpose_a?.b || node.attributes.transpose_b?.b) {
      throw new ModelConversionError(`${node.name}: transposed matrix product is not supported`);
    }
    const fused = fusedOps(node);
    const weights = this.#flat(input(node, 1), node);
    const inputs = [this.#channelsLast(input(node, 0)), weights];
    if (fused.includes('BiasAdd')) inputs.push(this.#flat(input(node, 2), node));
    const activation = fused.find((op) => op !== 'BiasAdd');
    if (activation !== undefined && activation !== 'Relu') {
      throw new ModelConversionError(`${node.name}: fused ${activation} is not supported`);
    }
    // The fused bias has the name of the addition, which is the name of the node.
    this.#emit('Gemm', inputs, activation ? `${node.name}/linear` : node.name);
    if (activation) this.#emit(activation, [`${node.name}/linear`], node.name);
  }

  #elementwise(opType: string, node: TfjsNode): void {
    const layouts = node.inputs.map((name) => this.#channelsFirst.has(name));
    const inputs = node.inputs.map((name) => {
      if (!this.#model.weights.has(name)) return name;
      return layouts.includes(true) ? this.#perChannel(name) : this.#flat(name, node);
    });
    this.#keepLayout(opType, node, inputs);
  }

  #pool(opType: 'MaxPool' | 'AveragePool', node: TfjsNode): void {
    this.#keepLayout(opType, node, [input(node, 0)], {
      kernel_shape: spatial(node, 'ksize'),
      strides: spatial(node, 'strides'),
      auto_pad: padding(node),
    });
  }

  #squeeze(node: TfjsNode): void {
    const axes = node.attributes.squeeze_dims?.list?.i ?? [];
    const shape = this.#int64(node.name, Float32Array.from(axes));
    this.#emit('Squeeze', [this.#channelsLast(input(node, 0)), shape], node.name);
  }

  #reshape(node: TfjsNode): void {
    const shape = this.#int64(node.name, this.#constant(input(node, 1)).data);
    this.#emit('Reshape', [this.#channelsLast(input(node, 0)), shape], node.name);
  }

  #pad(node: TfjsNode): void {
    const x = input(node, 0);
    const { data } = this.#constant(input(node, 1));
    const own = this.#channels.get(x);
    const [before = 0, after = 0] = data.slice(6);
    if (own !== undefined && data.subarray(0, 6).every((count) => count === 0)) {
      const all = before + own + after;
      this.#channels.set(node.name, all);
      if (inBlocks(own) && inBlocks(all)) {
        this.#add(pixelwisePad(x, { before, own, after }, node.name));
        this.#channelsFirst.add(node.name);
        return;
      }
    }
    const order = this.#channelsFirst.has(x) ? [0, 3, 1, 2] : [...Array(data.length / 2).keys()];
    const begin = order.map((axis) => data[axis * 2] ?? 0);
    const end = order.map((axis) => data[axis * 2 + 1] ?? 0);
    const pads = this.#int64(node.name, Float32Array.from([...begin, ...end]));
    this.#keepLayout('Pad', node, [x, pads]);
  }

  #concat(node: TfjsNode): void {
    const axis = this.#constant(node.inputs.at(-1) ?? '').data[0] ?? -1;
    const parts = node.inputs.slice(0, -1);
    const first = parts.every((name) => this.#channelsFirst.has(name));
    if (!first && parts.some((name) => this.#channelsFirst.has(name))) {
      throw new ModelConversionError(`${node.name}: mixed layouts`);
    }
    this.#emit('Concat', parts, node.name, { axis: first ? ([0, 2, 3, 1][(axis + 4) % 4] ?? 1) : axis });
    if (first) this.#channelsFirst.add(node.name);
  }

  #mean(node: TfjsNode): void {
    const axes = [...this.#constant(input(node, 1)).data];
    const [x] = node.inputs;
    const mapped = this.#channelsFirst.has(x ?? '') ? axes.map((axis) => [0, 2, 3, 1][axis] ?? axis) : axes;
    const keep = node.attributes.keep_dims?.b ? 1 : 0;
    if (mapped.length !== 2 || keep)
      throw new ModelConversionError(`${node.name}: only a spatial mean is supported`);
    this.#emit('ReduceMean', [x ?? ''], node.name, { axes: mapped, keepdims: 0 });
  }

  #keepLayout(
    opType: string,
    node: TfjsNode,
    inputs: string[],
    attributes?: Record<string, OnnxAttribute>,
  ): void {
    this.#emit(opType, inputs, node.name, attributes);
    this.#inheritLayout(node);
  }

  #inheritLayout(node: TfjsNode): void {
    if (node.inputs.some((name) => this.#channelsFirst.has(name))) this.#channelsFirst.add(node.name);
    const known = node.inputs.map((name) => this.#channels.get(name)).find((count) => count !== undefined);
    if (known !== undefined && !this.#channels.has(node.name)) this.#channels.set(node.name, known);
  }

  #add({ nodes, initializers }: Pixelwise): void {
    this.#nodes.push(...nodes);
    for (const tensor of initializers) this.#initializers.set(tensor.name, tensor);
  }

  #emit(opType: string, inputs: string[], output: string, attributes?: Record<string, OnnxAttribute>): void {
    this.#nodes.push({ opType, inputs, outputs: [output], ...(attributes ? { attributes } : {}) });
  }

  #channelsLast(name: string): string {
    if (!this.#channelsFirst.has(name)) return name;
    const result = `${name}/nhwc`;
    if (!this.#nodes.some((node) => node.outputs[0] === result)) {
      this.#emit('Transpose', [name], result, { perm: [0, 2, 3, 1] });
    }
    return result;
  }

  #constant(name: string): TfjsWeight {
    const weight = this.#model.weights.get(name);
    if (!weight) throw new ModelConversionError(`${this.#options.name}: ${name} is not a constant`);
    return weight;
  }

  /** Adds a constant unchanged, and returns its name. */
  #flat(name: string | undefined, node: TfjsNode): string {
    if (name === undefined) throw new ModelConversionError(`${node.name}: constant input missing`);
    const { dims, data } = this.#constant(name);
    this.#initializers.set(name, { name, dims, data });
    return name;
  }

  /** Adds a constant that varies only by channel, shaped to broadcast over NCHW, and returns its name. */
  #perChannel(name: string): string {
    const data = this.#channelValues(name);
    const key = `${name}/c11`;
    const shape = data.length === 1 ? [] : [data.length, 1, 1];
    this.#initializers.set(key, { name: key, dims: shape, data });
    return key;
  }

  #channelValues(name: string): Float32Array {
    const { dims, data } = this.#constant(name);
    if (dims.slice(0, -1).some((dim) => dim !== 1))
      throw new ModelConversionError(`${name}: not one value a channel`);
    return data;
  }

  #scalar(value: number): string {
    const name = `scalar_${value}`;
    this.#initializers.set(name, { name, dims: [], data: Float32Array.of(value) });
    return name;
  }

  #int64(owner: string, values: Float32Array): string {
    const name = `${owner}/int64`;
    const data = BigInt64Array.from(values, (value) => BigInt(value));
    this.#initializers.set(name, { name, dims: [data.length], data });
    return name;
  }
}
