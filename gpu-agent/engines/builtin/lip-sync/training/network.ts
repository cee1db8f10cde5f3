import { INPUTS, inputAt, type MouthWeights, OPENNESS_UNIT, OUTPUTS } from '../audio/mouth-model.ts';
import { normal, type Random } from './random.ts';

/** One recording: log-mel frames, their level, and four targets a frame. */
export interface Recording {
  readonly frames: Float32Array;
  readonly level: number;
  readonly targets: Float32Array;
  readonly count: number;
}

const BATCH = 64;
const OUT = OUTPUTS.length;
/** How much each output counts. */
const WEIGHT = [1, 0.15, 0.15, 1];

export interface TrainingOptions {
  readonly hidden: number;
  readonly epochs: number;
  /** Of so many frames one is shown an epoch, another one each time. */
  readonly stride: number;
  readonly rate: number;
  readonly random: Random;
  readonly log: (line: string) => void;
}

/** Trains the network by Adam (Kingma and Ba 2015) on squared errors, and cross entropy for the closure. */
export function trainNetwork(recordings: readonly Recording[], options: TrainingOptions): MouthWeights {
  const { hidden, epochs, stride, random, log } = options;
  const { mean, scale } = statistics(recordings);
  const inner = Float32Array.from({ length: hidden * INPUTS }, () => normal(random) * Math.sqrt(2 / INPUTS));
  const outer = Float32Array.from({ length: OUT * hidden }, () => normal(random) * Math.sqrt(1 / hidden));
  const weights = {
    hidden,
    mean,
    scale,
    inner,
    innerBias: new Float32Array(hidden),
    outer,
    outerBias: new Float32Array(OUT),
  };
  const parameters = [weights.inner, weights.innerBias, weights.outer, weights.outerBias].map(
    (values) => new Adam(values),
  );
  const x = new Float32Array(BATCH * INPUTS);
  const y = new Float32Array(BATCH * OUT);
  const order = recordings.flatMap((recording, r) =>
    Array.from({ length: Math.floor(recording.count / stride) }, (_, i) => [r, i * stride] as const),
  );
  const batches = Math.floor(order.length / BATCH);
  for (let epoch = 0; epoch < epochs; epoch++) {
    shuffle(order, random);
    let loss = 0;
    for (let b = 0; b < batches; b++) {
      for (let i = 0; i < BATCH; i++) {
        const [r, at] = order[b * BATCH + i] as readonly [number, number];
        const recording = recordings[r] as Recording;
        const frame = at + Math.floor(random() * stride);
        const row = x.subarray(i * INPUTS, (i + 1) * INPUTS);
        // Recordings whose level is misjudged, as when two people speak.
        inputAt(recording.frames, frame, recording.level, row);
        for (let k = 0; k < INPUTS; k++)
          row[k] = ((row[k] as number) - (mean[k] as number)) * (scale[k] as number);
        for (let o = 0; o < OUT; o++) y[i * OUT + o] = recording.targets[frame * 4 + o] as number;
        y[i * OUT] = (y[i * OUT] as number) / OPENNESS_UNIT;
      }
      const done = (epoch + b / batches) / epochs;
      loss += step(
        weights,
        parameters,
        x,
        y,
        options.rate * (0.02 + 0.98 * 0.5 * (1 + Math.cos(Math.PI * done))),
      );
    }
    log(`epoch ${epoch + 1} of ${epochs}: loss ${(loss / Math.max(1, batches)).toFixed(4)}`);
  }
  return weights;
}

function statistics(recordings: readonly Recording[]): { mean: Float32Array; scale: Float32Array } {
  const sum = new Float64Array(INPUTS);
  const squares = new Float64Array(INPUTS);
  const row = new Float32Array(INPUTS);
  let n = 0;
  for (const { frames, level, count } of recordings) {
    for (let i = 0; i < count; i += 5) {
      inputAt(frames, i, level, row);
      n++;
      for (let k = 0; k < INPUTS; k++) {
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

/** One step over a batch. @returns its mean loss */
function step(
  weights: MouthWeights,
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
  const delta = new Float32Array(OUT);
  let loss = 0;
  for (let i = 0; i < BATCH; i++) {
    const row = i * INPUTS;
    const out = Float32Array.from(outerBias);
    for (let h = 0; h < hidden; h++) {
      let a = innerBias[h] as number;
      const w = h * INPUTS;
      for (let k = 0; k < INPUTS; k++) a += (inner[w + k] as number) * (x[row + k] as number);
      active[h] = a > 0 ? a : 0;
      if (a > 0)
        for (let o = 0; o < OUT; o++) out[o] = (out[o] as number) + (outer[o * hidden + h] as number) * a;
    }
    for (let o = 0; o < OUT; o++) {
      const target = y[i * OUT + o] as number;
      const value = out[o] as number;
      const weight = (WEIGHT[o] as number) / BATCH;
      if (o < 3) {
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
      for (let o = 0; o < OUT; o++) {
        const at = o * hidden + h;
        gOuter[at] = (gOuter[at] as number) + (delta[o] as number) * a;
        back += (delta[o] as number) * (outer[at] as number);
      }
      gInnerBias[h] = (gInnerBias[h] as number) + back;
      const w = h * INPUTS;
      for (let k = 0; k < INPUTS; k++)
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
