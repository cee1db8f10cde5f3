import { ModelConversionError } from './conversion-error.ts';
import { encodeOnnxModel, type OnnxAttribute, type OnnxNode, type OnnxTensor } from './onnx-encoder.ts';
import type { ConvertOptions } from './tfjs-to-onnx.ts';
import type { TfliteModel, TfliteOperator, TfliteTensor } from './tflite-model.ts';

const SAME = 0;
const ACTIVATIONS: Readonly<Record<number, 'none' | 'Relu' | 'Relu6'>> = { 0: 'none', 1: 'Relu', 3: 'Relu6' };
const TO_CHANNELS_FIRST = [0, 3, 1, 2];
const TO_CHANNELS_LAST = [0, 2, 3, 1];

/**
 * Converts a TensorFlow Lite model (convolutional network, NHWC, batch of one) into a serialized ONNX model. Inputs
 * and outputs keep their NHWC layout, and inputs keep their names. Inside, tensors of four dimensions are NCHW, as
 * ONNX convolutions need them. Padding becomes part of the convolutions that follow it.
 * @throws ModelConversionError on an unsupported operator or option
 */
export function convertTfliteToOnnx(model: TfliteModel, options: ConvertOptions): Uint8Array<ArrayBuffer> {
  return new Converter(model, options).convert();
}

class Converter {
  readonly #model: TfliteModel;
  readonly #options: ConvertOptions;
  readonly #nodes: OnnxNode[] = [];
  readonly #initializers = new Map<string, OnnxTensor>();
  /** Constants by tensor, including the results of operators that only unpack constants. */
  readonly #constants = new Map<number, TfliteTensor & { data: Float32Array }>();
  /** Padded tensors: index of the unpadded tensor, and the pixels added above, left, below and right of it. */
  readonly #padded = new Map<number, { input: number; pads: readonly [number, number, number, number] }>();

  constructor(model: TfliteModel, options: ConvertOptions) {
    this.#model = model;
    this.#options = options;
  }

  convert(): Uint8Array<ArrayBuffer> {
    const { tensors, operators, inputs } = this.#model;
    tensors.forEach((tensor, index) => {
      if (tensor.data) this.#constants.set(index, { ...tensor, data: tensor.data });
    });
    const graphInputs = inputs.map((index) => {
      const { name, dims } = this.#tensor(index);
      this.#emit('Transpose', [name], value(index), { perm: TO_CHANNELS_FIRST });
      return { name, dims };
    });
    for (const operator of operators) this.#operator(operator);
    const outputs = Object.entries(this.#options.outputs).map(([name, output]) => {
      const index = tensors.findIndex((tensor) => tensor.name === name);
      if (index < 0) throw this.#error(`no output ${name}`);
      this.#emit('Identity', [this.#channelsLast(index)], output.name);
      return output;
    });
    return encodeOnnxModel({
      name: this.#options.name,
      nodes: this.#nodes,
      initializers: [...this.#initializers.values()],
      inputs: graphInputs,
      outputs,
    });
  }

  #operator(operator: TfliteOperator): void {
    const { op, options } = operator;
    const result = operator.outputs[0] ?? -1;
    switch (op) {
      case 'DEQUANTIZE':
      case 'DENSIFY':
        this.#constants.set(result, this.#constant(input(operator, 0)));
        break;
      case 'CONV_2D':
        this.#convolution(operator, false);
        break;
      case 'DEPTHWISE_CONV_2D':
        this.#convolution(operator, true);
        break;
      case 'ADD':
        this.#activated('Add', [this.#value(input(operator, 0)), this.#value(input(operator, 1))], operator);
        break;
      case 'LOGISTIC':
        this.#emit('Sigmoid', [this.#value(input(operator, 0))], value(result));
        break;
      case 'MAX_POOL_2D': {
        const window = [options.height ?? 0, options.width ?? 0] as const;
        this.#activated('MaxPool', [this.#value(input(operator, 0))], operator, {
          kernel_shape: window,
          strides: strides(operator),
          pads: this.#pads(operator, input(operator, 0), window),
        });
        break;
      }
      case 'DEPTH_TO_SPACE':
        this.#emit('DepthToSpace', [this.#value(input(operator, 0))], value(result), {
          blocksize: options.blockSize ?? 0,
          mode: 'DCR',
        });
        break;
      case 'RESIZE_BILINEAR':
        this.#resize(operator);
        break;
      case 'PAD':
        this.#pad(operator);
        break;
      case 'RESHAPE': {
        const { dims } = this.#tensor(result);
        if (dims.length === 4) throw this.#error('a reshape into four dimensions is not supported');
        const shape = this.#int64(`${value(result)}/shape`, dims);
        this.#emit('Reshape', [this.#channelsLast(input(operator, 0)), shape], value(result));
        break;
      }
      case 'CONCATENATION': {
        const { dims } = this.#tensor(result);
        const axis = ((options.axis ?? 0) + dims.length) % dims.length;
        const parts = operator.inputs.map((part) => this.#value(part));
        this.#activated('Concat', parts, operator, {
          axis: dims.length === 4 ? TO_CHANNELS_FIRST.indexOf(axis) : axis,
        });
        break;
      }
      default:
        throw this.#error(`operator ${op} is not supported`);
    }
  }

  #convolution(operator: TfliteOperator, depthwise: boolean): void {
    const { options } = operator;
    if (options.dilationWidth !== 1 || options.dilationHeight !== 1)
      throw this.#error('a dilated convolution is not supported');
    const source = input(operator, 0);
    const filter = this.#constant(input(operator, 1));
    const bias = this.#constant(input(operator, 2));
    const [first = 0, height = 0, width = 0, last = 0] = filter.dims;
    // TensorFlow Lite: [out, h, w, in], depthwise [1, h, w, out]. ONNX: [out, in / group, h, w].
    const [outChannels, perGroup] = depthwise ? [last, 1] : [first, last];
    const channels = this.#tensor(source).dims[3] ?? 0;
    if (channels !== (depthwise ? outChannels : perGroup))
      throw this.#error('a grouped convolution or one with a depth multiplier is not supported');
    const weights = new Float32Array(filter.data.length);
    for (let i = 0; i < weights.length; i++) {
      const pixel = Math.floor(i / last) % (height * width);
      const row = depthwise ? i % last : Math.floor(i / (last * height * width)) * last + (i % last);
      weights[row * height * width + pixel] = filter.data[i] as number;
    }
    const name = value(operator.outputs[0] ?? -1);
    const before = this.#padded.get(source);
    if (before && options.padding === SAME) throw this.#error('padding twice is not supported');
    this.#activated(
      'Conv',
      [
        before ? this.#value(before.input) : this.#value(source),
        this.#float(`${name}/weights`, [outChannels, perGroup, height, width], weights),
        this.#float(`${name}/bias`, bias.dims, bias.data),
      ],
      operator,
      {
        group: depthwise ? outChannels : 1,
        kernel_shape: [height, width],
        strides: strides(operator),
        pads: before?.pads ?? this.#pads(operator, source, [height, width]),
      },
    );
  }

  /** Emits a node, followed by the activation that is part of the operator. */
  #activated(
    opType: string,
    inputs: string[],
    operator: TfliteOperator,
    attributes?: Record<string, OnnxAttribute>,
  ): void {
    const result = value(operator.outputs[0] ?? -1);
    const activation = ACTIVATIONS[operator.options.activation ?? 0];
    if (activation === undefined)
      throw this.#error(`activation ${operator.options.activation} is not supported`);
    if (activation === 'none') {
      this.#emit(opType, inputs, result, attributes);
      return;
    }
    const linear = `${result}/linear`;
    this.#emit(opType, inputs, linear, attributes);
    if (activation === 'Relu') this.#emit('Relu', [linear], result);
    else {
      const bounds = [0, 6].map((bound) => this.#float(`relu6/${bound}`, [], Float32Array.of(bound)));
      this.#emit('Clip', [linear, ...bounds], result);
    }
  }

  #resize(operator: TfliteOperator): void {
    const { options } = operator;
    if (options.halfPixelCentres !== 1 || options.alignCorners !== 0)
      throw this.#error('a resize other than with half-pixel centres is not supported');
    const source = input(operator, 0);
    const result = operator.outputs[0] ?? -1;
    const scale = (axis: number): number =>
      (this.#tensor(result).dims[axis] ?? 0) / (this.#tensor(source).dims[axis] ?? 1);
    const scales = Float32Array.of(1, 1, scale(1), scale(2));
    this.#emit(
      'Resize',
      [this.#value(source), '', this.#float(`${value(result)}/scales`, [4], scales)],
      value(result),
      { mode: 'linear', coordinate_transformation_mode: 'half_pixel' },
    );
  }

  #pad(operator: TfliteOperator): void {
    const { data } = this.#constant(input(operator, 1));
    const [n0, n1, top = 0, bottom = 0, left = 0, right = 0, c0, c1] = data;
    if (data.length !== 8 || n0 || n1 || c0 || c1) throw this.#error('only rows and columns can be padded');
    const pads = [top, left, bottom, right] as const;
    this.#padded.set(operator.outputs[0] ?? -1, { input: input(operator, 0), pads });
  }

  /**
   * Computes TensorFlow's SAME padding: the output is the input divided by the stride, and an odd extra pixel goes
   * below or right.
   */
  #pads(operator: TfliteOperator, source: number, window: readonly [number, number]): number[] {
    if (operator.options.padding !== SAME) return [0, 0, 0, 0];
    const { dims } = this.#tensor(source);
    const totals = strides(operator).map((stride, axis) => {
      const length = dims[axis + 1] ?? 0;
      return Math.max(0, (Math.ceil(length / stride) - 1) * stride + (window[axis] ?? 0) - length);
    });
    return [...totals.map((total) => total >> 1), ...totals.map((total) => (total + 1) >> 1)];
  }

  #emit(opType: string, inputs: string[], output: string, attributes?: Record<string, OnnxAttribute>): void {
    this.#nodes.push({ opType, inputs, outputs: [output], ...(attributes ? { attributes } : {}) });
  }

  #channelsLast(index: number): string {
    const name = this.#value(index);
    if (this.#tensor(index).dims.length !== 4) return name;
    const result = `${name}/nhwc`;
    if (!this.#nodes.some((node) => node.outputs[0] === result))
      this.#emit('Transpose', [name], result, { perm: TO_CHANNELS_LAST });
    return result;
  }

  /** Returns the name of a computed tensor. */
  #value(index: number): string {
    if (this.#constants.has(index)) throw this.#error(`constant ${this.#tensor(index).name} as a value`);
    if (this.#padded.has(index))
      throw this.#error('padding before anything but a convolution is not supported');
    return value(index);
  }

  #tensor(index: number): TfliteTensor {
    const tensor = this.#model.tensors[index];
    if (!tensor) throw this.#error(`no tensor ${index}`);
    return tensor;
  }

  #constant(index: number): TfliteTensor & { data: Float32Array } {
    const constant = this.#constants.get(index);
    if (!constant) throw this.#error(`${this.#tensor(index).name} is not a constant`);
    return constant;
  }

  #float(name: string, dims: readonly number[], data: Float32Array): string {
    this.#initializers.set(name, { name, dims, data });
    return name;
  }

  #int64(name: string, values: readonly number[]): string {
    this.#initializers.set(name, {
      name,
      dims: [values.length],
      data: BigInt64Array.from(values, (entry) => BigInt(entry)),
    });
    return name;
  }

  #error(message: string): ModelConversionError {
    return new ModelConversionError(`${this.#options.name}: ${message}`);
  }
}

function value(index: number): string {
  return `tensor${index}`;
}

function input(operator: TfliteOperator, index: number): number {
  return operator.inputs[index] ?? -1;
}

function strides({ options }: TfliteOperator): [number, number] {
  return [options.strideHeight ?? 1, options.strideWidth ?? 1];
}
