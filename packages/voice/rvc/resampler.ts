import { greatestCommonDivisor, weightAt } from '@semblance/speech/resample';

/** Zero crossings of the kernel on each side. */
const REACH = 12;
/** Share of the narrower band that is kept completely. */
const BAND = 0.95;

/** Resamples a stream (windowed sinc, Hann). The output does not depend on how the stream is cut. */
export class Resampler {
  /** Delay of the output, in seconds. */
  readonly delay: number;
  readonly #up: number;
  readonly #down: number;
  readonly #taps: number;
  /** One row of weights for each position between two samples. */
  readonly #kernel: Float64Array;
  #held: Float64Array;
  /** Position of the next output among the held samples, in units of 1/`up`. */
  #place = 0;

  constructor(from: number, to: number) {
    const divisor = greatestCommonDivisor(from, to);
    this.#up = to / divisor;
    this.#down = from / divisor;
    const cut = Math.min(1, to / from) * BAND;
    const reach = Math.ceil(REACH / cut);
    this.#taps = 2 * reach;
    this.delay = reach / from;
    this.#kernel = Float64Array.from({ length: this.#up * this.#taps }, (_, i) => {
      const phase = Math.floor(i / this.#taps) / this.#up;
      return weightAt(phase - ((i % this.#taps) - reach + 1), cut, reach);
    });
    // The stream begins as if silence preceded it.
    this.#held = new Float64Array(this.#taps - 1);
  }

  /** After n input samples it has returned ⌈n · to / from⌉ output samples. */
  push(samples: Float64Array): Float64Array {
    const held = new Float64Array(this.#held.length + samples.length);
    held.set(this.#held);
    held.set(samples, this.#held.length);
    const room = held.length - this.#taps + 1;
    const out = new Float64Array(Math.max(0, Math.ceil((room * this.#up - this.#place) / this.#down)));
    for (let i = 0; i < out.length; i++) {
      const at = this.#place + i * this.#down;
      const first = Math.floor(at / this.#up);
      const row = (at % this.#up) * this.#taps;
      let sum = 0;
      for (let k = 0; k < this.#taps; k++)
        sum += (held[first + k] as number) * (this.#kernel[row + k] as number);
      out[i] = sum;
    }
    const next = this.#place + out.length * this.#down;
    const done = Math.min(room, Math.floor(next / this.#up));
    this.#place = next - done * this.#up;
    this.#held = held.slice(done);
    return out;
  }
}
