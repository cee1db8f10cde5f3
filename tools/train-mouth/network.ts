import type { Network } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { normal, type Random } from '@semblance/testkit/sound/random';

/** The inputs and targets that a network learns from. */
export interface Task {
  readonly inputs: number;
  /** Weight of each output in the loss. `odds`: the output is the log odds of a target that is 0 or 1. */
  readonly outputs: readonly { readonly weight: number; readonly odds: boolean }[];
  /** Number of frames of each recording. */
  readonly counts: readonly number[];
  inputAt(recording: number, frame: number, out: Float32Array): void;
  targetsAt(recording: number, frame: number, out: Float32Array): void;
}

const BATCH = 64;

export interface TrainingOptions {
  readonly hidden: number;
  readonly epochs: number;
  /** Of every `stride` frames an epoch uses one, chosen at random. */
  readonly stride: number;
  readonly rate: number;
  readonly random: Random;
  readonly log: (line: string) => void;
}

/** Trains the network with Adam (Kingma and Ba 2015), on squared errors, or cross entropy for outputs with `odds`. */
export function trainNetwork(task: Task, options: TrainingOptions): Network {
  const { hidden, epochs, stride, random, log } = options;
  const { inputs, counts } = task;
  const outputs = task.outputs.length;
  const { mean, scale } = statistics(task);
  const inner = Float32Array.from({ length: hidden * inputs }, () => normal(random) * Math.sqrt(2 / inputs));
  const outer = Float32Array.from({ length: outputs * hidden }, () => normal(random) * Math.sqrt(1 / hidden));
  const weights = {
    hidden,
    mean,
    scale,
    inner,
    innerBias: new Float32Array(hidden),
    outer,
    outerBias: new Float32Array(outputs),
  };
  const parameters = [weights.inner, weights.innerBias, weights.outer, weights.outerBias].map(
    (values) => new Adam(values),
  );
  const x = new Float32Array(BATCH * inputs);
  const y = new Float32Array(BATCH * outputs);
  const order = counts.flatMap((count, r) =>
    Array.from({ length: Math.floor(count / stride) }, (_, i) => [r, i * stride] as const),
  );
  const batches = Math.floor(order.length / BATCH);
  for (let epoch = 0; epoch < epochs; epoch++) {
    shuffle(order, random);
    let loss = 0;
    for (let b = 0; b < batches; b++) {
      for (let i = 0; i < BATCH; i++) {
        const [r, at] = order[b * BATCH + i] as readonly [number, number];
        const frame = at + Math.floor(random() * stride);
        const row = x.subarray(i * inputs, (i + 1) * inputs);
        task.inputAt(r, frame, row);
        for (let k = 0; k < inputs; k++)
          row[k] = ((row[k] as number) - (mean[k] as number)) * (scale[k] as number);
        task.targetsAt(r, frame, y.subarray(i * outputs, (i + 1) * outputs));
      }
      const done = (epoch + b / batches) / epochs;
      loss += step(
        ...([task, weights, parameters, x, y] as const),
        options.rate * (0.02 + 0.98 * 0.5 * (1 + Math.cos(Math.PI * done))),
      );
    }
    log(`epoch ${epoch + 1} of ${epochs}: loss ${(loss / Math.max(1, batches)).toFixed(4)}`);
  }
  return weights;
}

function statistics({ inputs, counts, inputAt }: Task): { mean: Float32Array; scale: Float32Array } {
  const sum = new Float64Array(inputs);
  const squares = new Float64Array(inputs);
  const row = new Float32Array(inputs);
  let n = 0;
  for (const [r, count] of counts.entries()) {
    for (let i = 0; i < count; i += 5) {
      inputAt(r, i, row);
      n++;
      for (let k = 0; k < inputs; k++) {
        sum[k] = (sum[k] as number) + (row[k] as number);
        squares[k] = (squares[k] as number) + (row[k] as number) ** 2;
      }
    }
  }
  const mean = Float32Array.from(sum, (value) => value / n);
  const scale = Float32Array.from(
    squares,
    (value, k) => 1 / Math.sqrt(value / n - (mean[k] as number) ** 2 + 1e-3),
  );
  return { mean, scale };
}

/** Performs one training step on a batch. @returns its mean loss */
function step(
  { inputs, outputs }: Task,
  weights: Network,
  parameters: readonly Adam[],
  x: Float32Array,
  y: Float32Array,
  rate: number,
): number {
  const { hidden, inner, innerBias, outer, outerBias } = weights;
  const [gInner, gInnerBias, gOuter, gOuterBias] = parameters.map((p) => p.gradient) as [
    Float32Array,
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  for (const { gradient } of parameters) gradient.fill(0);
  const active = new Float32Array(hidden);
  const count = outputs.length;
  const delta = new Float32Array(count);
  let loss = 0;
  for (let i = 0; i < BATCH; i++) {
    const row = i * inputs;
    const out = Float32Array.from(outerBias);
    for (let h = 0; h < hidden; h++) {
      let a = innerBias[h] as number;
      const w = h * inputs;
      for (let k = 0; k < inputs; k++) a += (inner[w + k] as number) * (x[row + k] as number);
      active[h] = a > 0 ? a : 0;
      if (a > 0)
        for (let o = 0; o < count; o++) out[o] = (out[o] as number) + (outer[o * hidden + h] as number) * a;
    }
    for (let o = 0; o < count; o++) {
      const target = y[i * count + o] as number;
      const value = out[o] as number;
      const { weight: share, odds } = outputs[o] as Task['outputs'][number];
      const weight = share / BATCH;
      if (!odds) {
        delta[o] = 2 * weight * (value - target);
        loss += weight * (value - target) ** 2;
      } else {
        const p = 1 / (1 + Math.exp(-value));
        delta[o] = weight * (p - target);
        loss -= weight * Math.log(Math.max(1e-6, target > 0.5 ? p : 1 - p));
      }
      gOuterBias[o] = (gOuterBias[o] as number) + (delta[o] as number);
    }
    for (let h = 0; h < hidden; h++) {
      const a = active[h] as number;
      if (a === 0) continue;
      let back = 0;
      for (let o = 0; o < count; o++) {
        const at = o * hidden + h;
        gOuter[at] = (gOuter[at] as number) + (delta[o] as number) * a;
        back += (delta[o] as number) * (outer[at] as number);
      }
      gInnerBias[h] = (gInnerBias[h] as number) + back;
      const w = h * inputs;
      for (let k = 0; k < inputs; k++)
        gInner[w + k] = (gInner[w + k] as number) + back * (x[row + k] as number);
    }
  }
  for (const parameter of parameters) parameter.update(rate);
  return loss;
}

class Adam {
  readonly gradient: Float32Array;
  readonly #values: Float32Array;
  readonly #first: Float32Array;
  readonly #second: Float32Array;
  #steps = 0;

  constructor(values: Float32Array) {
    this.#values = values;
    this.gradient = new Float32Array(values.length);
    this.#first = new Float32Array(values.length);
    this.#second = new Float32Array(values.length);
  }

  update(rate: number): void {
    this.#steps++;
    const scale = (rate * Math.sqrt(1 - 0.999 ** this.#steps)) / (1 - 0.9 ** this.#steps);
    for (let i = 0; i < this.gradient.length; i++) {
      const g = this.gradient[i] as number;
      const m = 0.9 * (this.#first[i] as number) + 0.1 * g;
      const s = 0.999 * (this.#second[i] as number) + 0.001 * g * g;
      this.#first[i] = m;
      this.#second[i] = s;
      this.#values[i] = (this.#values[i] as number) * (1 - 0.01 * rate) - (scale * m) / (Math.sqrt(s) + 1e-8);
    }
  }
}

function shuffle<T>(items: T[], random: Random): void {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const item = items[i] as T;
    items[i] = items[j] as T;
    items[j] = item;
  }
}
