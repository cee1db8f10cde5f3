import type { Kernels } from './kernels/kernels.ts';
import type { Ring } from './ring.ts';

/** Frequency above which friction lies, in Hz. */
const CROSSOVER_HZ = 4_000;
/** Length of the filter that separates the bands, in seconds. */
const FILTER_SEC = 0.001;
/**
 * Power above the crossover relative to the power below. Up to the first value the sound is voice, from the second
 * on it is friction.
 */
const VOICE = 0.1;
const FRICTION = 0.5;
/** Sample rate below which there is no band to separate, in Hz. */
const LEAST_RATE = 12_000;

/**
 * Removes friction from sound whose pitch will be shifted. Sounds like z and v are voice and hiss at once, and a
 * hiss cut into periods buzzes. Content above 4 kHz is removed as far as it is strong relative to the content
 * below.
 */
export class Friction {
  /** Largest delay of the result, in samples. */
  readonly lag: number;
  /** The sound without its friction. */
  readonly voice: Ring;

  readonly #sound: Ring;
  readonly #hop: number;
  readonly #reach: number;
  readonly #kernels: Kernels;
  readonly #kernel: Float32Array;
  /** Input of the filter for the last separated block, and the block itself. */
  readonly #input: Float32Array;
  readonly #block: Float32Array;
  /** Low band of the last separated block, and of the block before it. */
  #low: Float32Array;
  #lowBefore: Float32Array;
  /** Voice's share of the high band in the last three blocks. */
  readonly #share = [1, 1, 1];
  #powerLow = 0;
  #powerHigh = 0;

  /** @param hop samples between two calls of {@link part} */
  constructor(kernels: Kernels, sound: Ring, voice: Ring, sampleRate: number, hop: number) {
    this.#kernels = kernels;
    this.#sound = sound;
    this.voice = voice;
    this.#hop = hop;
    this.#reach = sampleRate < LEAST_RATE ? 0 : Math.round((FILTER_SEC * sampleRate) / 2);
    this.#kernel = kernels.floatsOf(lowPass(CROSSOVER_HZ / sampleRate, this.#reach));
    this.#input = kernels.floats(hop + this.#kernel.length);
    this.#block = new Float32Array(hop);
    this.#low = kernels.floats(hop);
    this.#lowBefore = kernels.floats(hop);
    this.lag = this.#reach + 2 * hop;
  }

  /** Separates one hop. Must be called when the sound has `end` samples, a hop after the call before. */
  part(end: number): void {
    const [hop, reach] = [this.#hop, this.#reach];
    const first = end - reach - hop;
    [this.#low, this.#lowBefore] = [this.#lowBefore, this.#low];
    this.#filter(first);
    this.#share.shift();
    this.#share.push(reach === 0 ? 1 : this.#voiceShare());
    const block = this.#block;
    this.#sound.read(first - hop, block, hop);
    const [before, here, after] = this.#share as [number, number, number];
    if (before < 1 || here < 1 || after < 1) this.#takeOut(block, before, here, after);
    this.voice.write(first - hop, block, hop);
  }

  /** Removes the friction from a block, by the voice's share in it and in its neighbours. */
  #takeOut(block: Float32Array, before: number, here: number, after: number): void {
    const hop = this.#hop;
    for (let i = 0; i < hop; i++) {
      // The share changes from the middle of one block to that of the next.
      const x = (i + 0.5) / hop - 0.5;
      const share = x < 0 ? here + (before - here) * -x : here + (after - here) * x;
      const low = this.#lowBefore[i] as number;
      block[i] = low + share * ((block[i] as number) - low);
    }
  }

  #filter(first: number): void {
    const [input, kernel, low] = [this.#input, this.#kernel, this.#low];
    this.#sound.read(first - this.#reach, input, input.length);
    const taps = kernel.length;
    this.#kernels.run.filter(input.byteOffset, kernel.byteOffset, taps, low.byteOffset, this.#hop, 1);
  }

  #voiceShare(): number {
    const [input, lows, reach] = [this.#input, this.#low, this.#reach];
    let [low, high] = [0, 0];
    for (let i = 0; i < this.#hop; i++) {
      const below = lows[i] as number;
      const above = (input[reach + i] as number) - below;
      low += below * below;
      high += above * above;
    }
    this.#powerLow = (this.#powerLow + low) / 2;
    this.#powerHigh = (this.#powerHigh + high) / 2;
    if (this.#powerHigh <= VOICE * this.#powerLow) return 1;
    return Math.max(0, 1 - (this.#powerHigh / this.#powerLow - VOICE) / (FRICTION - VOICE));
  }
}

/** Returns a windowed sinc (Hann) with `reach` taps on each side, padded with zeros to a multiple of eight. */
function lowPass(cut: number, reach: number): Float64Array {
  const kernel = new Float64Array(8 * Math.ceil((2 * reach + 1) / 8));
  for (let k = -reach; k <= reach; k++) {
    const sinc = k === 0 ? 2 * cut : Math.sin(2 * Math.PI * cut * k) / (Math.PI * k);
    kernel[k + reach] = sinc * (0.5 + 0.5 * Math.cos((Math.PI * k) / (reach + 1)));
  }
  const sum = kernel.reduce((a, b) => a + b, 0);
  return kernel.map((value) => value / sum);
}
