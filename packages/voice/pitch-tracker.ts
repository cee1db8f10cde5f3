import type { Kernels } from './kernels/kernels.ts';
import { PitchPath } from './pitch-path.ts';

/** Pitch range of a voice, in Hz. */
export const LOWEST_HZ = 58;
export const HIGHEST_HZ = 520;
/** Approximate sample rate of the analysis, in Hz. */
const RATE = 8_000;
/** Upper end of the analysed band, in Hz: the lower harmonics, which contain the least noise and friction. */
const BAND_HZ = 1_500;
/** Length of the low-pass, in seconds. */
const FILTER_SEC = 0.0028;
/** Frequency below which rumble and offset are removed, in Hz. */
const RUMBLE_HZ = 45;
/** Time between two frames, and length over which periods are compared, in seconds. */
const HOP_SEC = 0.004;
const WINDOW_SEC = 0.02;
/** Most candidates of a frame. */
const CANDIDATES = 6;
const LEAST_CLARITY = 0.3;
/** Least power of a voice (75 dB below full scale). Hum of converters and codecs is quieter. */
const LEAST_POWER = 3e-8;

/** The pitch around one moment. */
export interface PitchFrame {
  /** Pitch in Hz; 0 without a voice. */
  hz: number;
  /** Similarity of neighbouring periods, up to 1. */
  clarity: number;
}

/**
 * Finds the pitch of a stream of speech, one frame per 4 ms, each from the 39 ms of sound before it. The candidates
 * are the peaks of the normalised square difference function (McLeod and Wyvill, "A smarter way to find pitch",
 * ICMC 2005). Both windows of a comparison are centred on the same moment. {@link PitchPath} chooses among the
 * candidates.
 */
export class PitchTracker {
  /** Samples between two frames. */
  readonly hop: number;
  /** Distance from a frame's moment to its end, in samples. */
  readonly lag: number;
  /** The latest frame, changed in place. */
  readonly frame: PitchFrame = { hz: 0, clarity: 0 };

  readonly #path: PitchPath;
  readonly #step: number;
  readonly #rate: number;
  readonly #kernels: Kernels;
  readonly #kernel: Float32Array;
  readonly #input: Float32Array;
  /** Output of the filter. */
  readonly #lowered: Float32Array;
  readonly #least: number;
  readonly #most: number;
  readonly #window: number;
  readonly #history: Float32Array;
  readonly #hopSteps: number;
  /** Every second sample of the history. */
  readonly #rough: Float32Array;
  readonly #roughEnergy: Float64Array;
  readonly #energy: Float64Array;
  /** Rough similarity at each lag, and precise similarity at a single one. */
  readonly #alike: Float32Array;
  readonly #one: Float32Array;
  readonly #hz = new Float64Array(CANDIDATES);
  readonly #clarity = new Float64Array(CANDIDATES);
  readonly #rumble: number;
  #filled = 0;
  #low = 0;

  constructor(sampleRate: number, kernels: Kernels) {
    this.#kernels = kernels;
    this.#step = Math.max(1, Math.floor(sampleRate / RATE));
    this.#rate = sampleRate / this.#step;
    this.#hopSteps = Math.round(HOP_SEC * this.#rate);
    this.hop = this.#hopSteps * this.#step;
    this.#kernel = kernels.floatsOf(lowPass(sampleRate, 8 * Math.round((FILTER_SEC * sampleRate) / 8)));
    this.#input = kernels.floats(this.#kernel.length + this.hop);
    this.#lowered = kernels.floats(this.#hopSteps);
    this.#least = Math.floor(this.#rate / HIGHEST_HZ) - 1;
    this.#most = 2 * Math.ceil(this.#rate / LOWEST_HZ / 2) + 2;
    this.#window = 8 * Math.round((WINDOW_SEC * this.#rate) / 8);
    this.#history = kernels.floats(this.#window + this.#most + 4);
    this.#rough = kernels.floats(this.#history.length >> 1);
    this.#roughEnergy = kernels.doubles(this.#rough.length + 1);
    this.#energy = kernels.doubles(this.#history.length + 1);
    this.#alike = kernels.floats((this.#most >> 1) + 1);
    this.#one = kernels.floats(1);
    this.#rumble = 1 - Math.exp((-2 * Math.PI * RUMBLE_HZ) / this.#rate);
    this.lag = Math.round((this.#step * this.#history.length) / 2 + (this.#kernel.length - 1) / 2);
    this.#path = new PitchPath(HOP_SEC, CANDIDATES);
  }

  /** Most samples per call. */
  get room(): number {
    return this.hop - this.#filled;
  }

  /**
   * Takes the first `count` samples, at most {@link room}. Every {@link hop}th sample completes a frame.
   * @returns whether the last one did
   */
  push(samples: Float32Array, count: number): boolean {
    const [input, at] = [this.#input, this.#kernel.length + this.#filled];
    for (let i = 0; i < count; i++) input[at + i] = samples[i] as number;
    this.#filled += count;
    if (this.#filled < this.hop) return false;
    this.#decimate();
    this.#filled = 0;
    this.#find();
    return true;
  }

  #decimate(): void {
    const [input, kernel, history, lowered] = [this.#input, this.#kernel, this.#history, this.#lowered];
    history.copyWithin(0, this.#hopSteps);
    const first = history.length - this.#hopSteps;
    const begin = input.byteOffset + this.#step * input.BYTES_PER_ELEMENT;
    const taps = kernel.length;
    const { filter } = this.#kernels.run;
    filter(begin, kernel.byteOffset, taps, lowered.byteOffset, this.#hopSteps, this.#step);
    for (let i = 0; i < this.#hopSteps; i++) {
      const value = lowered[i] as number;
      this.#low += this.#rumble * (value - this.#low);
      history[first + i] = value - this.#low;
    }
    input.copyWithin(0, this.hop);
  }

  #find(): void {
    const history = this.#history;
    const rough = this.#rough;
    runningEnergy(history, this.#energy);
    for (let i = 0; i < rough.length; i++) rough[i] = history[2 * i + 1] as number;
    runningEnergy(rough, this.#roughEnergy);
    const first = (history.length - this.#window) >> 1;
    const power =
      ((this.#energy[first + this.#window] as number) - (this.#energy[first] as number)) / this.#window;
    const heard = power >= LEAST_POWER;
    const count = heard ? this.#peaks() : 0;
    const chosen = this.#path.step(this.#hz, this.#clarity, count, heard ? power : 0);
    this.frame.hz = chosen < 0 ? 0 : (this.#hz[chosen] as number);
    this.frame.clarity = chosen < 0 ? 0 : (this.#clarity[chosen] as number);
  }

  /** Finds candidates at every second lag, from every second sample; they are refined afterwards. */
  #peaks(): number {
    const [least, most] = [(this.#least >> 1) - 1, this.#most >> 1];
    const alike = this.#alike;
    this.#compare(this.#rough, this.#roughEnergy, this.#window >> 1, least, most, alike);
    let before = 2;
    let here = 2;
    let count = 0;
    for (let lag = least; lag <= most; lag++) {
      const after = alike[lag - least] as number;
      if (here >= LEAST_CLARITY && here > before && here >= after)
        count = this.#closely(count, 2 * (lag - 1));
      before = here;
      here = after;
    }
    return count;
  }

  #compare(
    samples: Float32Array,
    energy: Float64Array,
    window: number,
    first: number,
    last: number,
    out: Float32Array,
  ): void {
    const { likeness } = this.#kernels.run;
    likeness(samples.byteOffset, samples.length, energy.byteOffset, window, first, last, out.byteOffset);
  }

  #like(lag: number): number {
    this.#compare(this.#history, this.#energy, this.#window, lag, lag, this.#one);
    return this.#one[0] as number;
  }

  #closely(count: number, lag: number): number {
    let peak = lag;
    let [before, here, after] = [this.#like(lag - 1), this.#like(lag), this.#like(lag + 1)];
    for (let moved = 0; moved < 2 && (before > here || after > here); moved++) {
      if (before > here) {
        peak--;
        [before, here, after] = [this.#like(peak - 1), before, here];
      } else {
        peak++;
        [before, here, after] = [here, after, this.#like(peak + 1)];
      }
    }
    if (peak < this.#least || peak > this.#most || before > here || after > here) return count;
    const bend = before - 2 * here + after;
    const shift = bend < 0 ? (0.5 * (before - after)) / bend : 0;
    return this.#keep(
      count,
      this.#rate / (peak + shift),
      Math.min(1, here - 0.25 * (before - after) * shift),
    );
  }

  /** Keeps a candidate, and drops the weakest when there are too many. */
  #keep(count: number, hz: number, clarity: number): number {
    let at = count;
    if (count === CANDIDATES) {
      at = 0;
      for (let i = 1; i < count; i++) {
        if ((this.#clarity[i] as number) < (this.#clarity[at] as number)) at = i;
      }
      if ((this.#clarity[at] as number) >= clarity) return count;
    }
    this.#hz[at] = hz;
    this.#clarity[at] = clarity;
    return Math.min(CANDIDATES, count + 1);
  }
}

/** Computes the running sum of squares: `energy[i]` is that of the first `i` samples. */
function runningEnergy(samples: Float32Array, energy: Float64Array): void {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) {
    const sample = samples[i] as number;
    sum += sample * sample;
    energy[i + 1] = sum;
  }
}

/** Returns a windowed sinc (Hann). @param taps even */
function lowPass(sampleRate: number, taps: number): Float64Array {
  const cut = (2 * BAND_HZ) / sampleRate;
  const kernel = Float64Array.from({ length: taps }, (_, i) => {
    const k = i - (taps - 1) / 2;
    return (
      (Math.sin(Math.PI * cut * k) / (Math.PI * k)) * (0.5 + 0.5 * Math.cos((2 * Math.PI * k) / (taps + 1)))
    );
  });
  const sum = kernel.reduce((a, b) => a + b, 0);
  return kernel.map((value) => value / sum);
}
