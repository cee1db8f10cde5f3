import { PitchPath } from './pitch-path.ts';

/** Range in which a voice's pitch is looked for. */
export const LOWEST_HZ = 58;
export const HIGHEST_HZ = 520;
/** The sound is brought to about this rate first. */
const RATE = 8_000;
/** Upper end of the band that is looked at: the lower harmonics, which noise and friction reach least. */
const BAND_HZ = 1_500;
/** Length of the low-pass, seconds. */
const FILTER_SEC = 0.0028;
/** Rumble and steady offset below this are taken away. */
const RUMBLE_HZ = 45;
/** Time between two frames, and over which periods are compared, seconds. */
const HOP_SEC = 0.004;
const WINDOW_SEC = 0.02;
/** Most candidates of a frame. */
const CANDIDATES = 6;
/** Peaks below this are no candidates. */
const LEAST_CLARITY = 0.3;

/** What is known of the sound around one moment. */
export interface PitchFrame {
  /** 0 without a voice. */
  hz: number;
  /** How alike neighbouring periods are, up to 1. */
  clarity: number;
}

/**
 * Finds the pitch of a stream of speech, a frame each 4 ms, each from the 39 ms of sound before it. A frame's candidates
 * are the peaks of the normalised square difference function (McLeod and Wyvill, "A smarter way to find pitch", ICMC
 * 2005), with both parts of every comparison centred on the same moment; {@link PitchPath} chooses among them.
 */
export class PitchTracker {
  /** Samples between two frames. */
  readonly hop: number;
  /** How far the moment that a frame tells of lies before its end, samples. */
  readonly lag: number;
  /** The latest frame; changed in place. */
  readonly frame: PitchFrame = { hz: 0, clarity: 0 };

  readonly #path: PitchPath;
  readonly #step: number;
  readonly #rate: number;
  readonly #kernel: Float64Array;
  readonly #input: Float64Array;
  readonly #least: number;
  readonly #most: number;
  readonly #window: number;
  readonly #history: Float64Array;
  readonly #hopSteps: number;
  readonly #likeness: Float64Array;
  readonly #energy: Float64Array;
  readonly #hz = new Float64Array(CANDIDATES);
  readonly #clarity = new Float64Array(CANDIDATES);
  readonly #rumble: number;
  #filled = 0;
  #low = 0;

  constructor(sampleRate: number) {
    this.#step = Math.max(1, Math.floor(sampleRate / RATE));
    this.#rate = sampleRate / this.#step;
    this.#hopSteps = Math.round(HOP_SEC * this.#rate);
    this.hop = this.#hopSteps * this.#step;
    this.#kernel = lowPass(sampleRate, Math.round((FILTER_SEC * sampleRate) / 2));
    this.#input = new Float64Array(this.#kernel.length + this.hop);
    this.#least = Math.floor(this.#rate / HIGHEST_HZ) - 1;
    this.#most = Math.ceil(this.#rate / LOWEST_HZ) + 1;
    this.#window = Math.round(WINDOW_SEC * this.#rate);
    this.#history = new Float64Array(this.#window + this.#most);
    this.#likeness = new Float64Array(this.#most + 1);
    this.#energy = new Float64Array(this.#history.length + 1);
    this.#rumble = 1 - Math.exp((-2 * Math.PI * RUMBLE_HZ) / this.#rate);
    this.lag = Math.round((this.#step * this.#history.length) / 2 + (this.#kernel.length - 1) / 2);
    this.#path = new PitchPath(HOP_SEC, CANDIDATES);
  }

  /** Takes the next sample. Every {@link hop}th completes a frame. @returns whether it did */
  push(sample: number): boolean {
    this.#input[this.#kernel.length + this.#filled++] = sample;
    if (this.#filled < this.hop) return false;
    this.#decimate();
    this.#filled = 0;
    this.#find();
    return true;
  }

  #decimate(): void {
    const [input, kernel, history] = [this.#input, this.#kernel, this.#history];
    const taps = kernel.length;
    history.copyWithin(0, this.#hopSteps);
    const first = history.length - this.#hopSteps;
    for (let i = 0; i < this.#hopSteps; i++) {
      const at = (i + 1) * this.#step;
      let sum = 0;
      for (let k = 0; k < taps; k++) sum += (input[at + k] as number) * (kernel[k] as number);
      this.#low += this.#rumble * (sum - this.#low);
      history[first + i] = sum - this.#low;
    }
    input.copyWithin(0, this.hop);
  }

  #find(): void {
    const { energy, power } = this.#measure();
    const count = power > 0 ? this.#peaks(energy) : 0;
    const chosen = this.#path.step(this.#hz, this.#clarity, count, power);
    this.frame.hz = chosen < 0 ? 0 : (this.#hz[chosen] as number);
    this.frame.clarity = chosen < 0 ? 0 : (this.#clarity[chosen] as number);
  }

  /** Running sum of squares, and the mean over the middle of the frame. */
  #measure(): { energy: Float64Array; power: number } {
    const [history, energy] = [this.#history, this.#energy];
    for (let i = 0; i < history.length; i++) {
      energy[i + 1] = (energy[i] as number) + (history[i] as number) ** 2;
    }
    const first = (history.length - this.#window) >> 1;
    const power = ((energy[first + this.#window] as number) - (energy[first] as number)) / this.#window;
    // Below what one step of a 16-bit sample can carry there is nothing to hear.
    return { energy, power: power < 1e-10 ? 0 : power };
  }

  #peaks(energy: Float64Array): number {
    const [history, likeness, window] = [this.#history, this.#likeness, this.#window];
    for (let lag = this.#least; lag <= this.#most; lag++) {
      const a = (this.#most - lag) >> 1;
      const b = a + lag;
      let sum = 0;
      for (let i = 0; i < window; i++) sum += (history[a + i] as number) * (history[b + i] as number);
      const both =
        (energy[a + window] as number) -
        (energy[a] as number) +
        (energy[b + window] as number) -
        (energy[b] as number);
      likeness[lag] = both > 0 ? (2 * sum) / both : 0;
    }
    let count = 0;
    for (let lag = this.#least + 1; lag < this.#most; lag++) {
      const [before, here, after] = [likeness[lag - 1], likeness[lag], likeness[lag + 1]] as [
        number,
        number,
        number,
      ];
      if (here < LEAST_CLARITY || here <= before || here < after) continue;
      const bend = before - 2 * here + after;
      const shift = bend < 0 ? (0.5 * (before - after)) / bend : 0;
      count = this.#keep(
        count,
        this.#rate / (lag + shift),
        Math.min(1, here - 0.25 * (before - after) * shift),
      );
    }
    return count;
  }

  /** Keeps a candidate, the weakest giving way when there are too many. */
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

/** Windowed sinc (Hann), 2 · reach + 1 taps. */
function lowPass(sampleRate: number, reach: number): Float64Array {
  const kernel = new Float64Array(2 * reach + 1);
  const cut = (2 * BAND_HZ) / sampleRate;
  for (let k = -reach; k <= reach; k++) {
    const sinc = k === 0 ? cut : Math.sin(Math.PI * cut * k) / (Math.PI * k);
    kernel[k + reach] = sinc * (0.5 + 0.5 * Math.cos((Math.PI * k) / (reach + 1)));
  }
  const sum = kernel.reduce((a, b) => a + b, 0);
  return kernel.map((value) => value / sum);
}
