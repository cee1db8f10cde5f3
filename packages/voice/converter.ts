import type { Voice } from '@semblance/common/voices/voice';
import { FULL_SCALE, Limiter, toSample } from './limiter.ts';
import { Shifter } from './shifter.ts';
import { Timbre } from './timbre.ts';

export const LOWEST_RATE = 8_000;
export const HIGHEST_RATE = 96_000;
/** Length of voice over which loudness is compared, in seconds. */
const LOUDNESS_SEC = 0.3;
/** Prior of the loudness: the voice's own power, as if it had been heard at this level for a while. */
const PRIOR_POWER = 1e-4;
/** Largest correction of loudness, as a factor. */
const MAX_GAIN = 2;

export interface VoiceConverterOptions {
  /** Sample rate in Hz, from {@link LOWEST_RATE} to {@link HIGHEST_RATE}. */
  readonly sampleRate: number;
  /** Voice to convert to. Without one, samples pass unchanged. */
  readonly voice?: Voice | undefined;
}

/** Converts one stream of mono sound with a fixed amount of memory, however long the stream is. */
export interface VoiceConverter {
  /** Delay of the output, in samples. */
  readonly latencySamples: number;
  /**
   * Takes any number of samples and returns as many: silence for the first `latencySamples` of a stream, then its
   * sound. The output does not depend on how the stream is cut.
   */
  push(chunk: Int16Array): Int16Array;
  /** Ends the stream: returns the last `latencySamples`. The next push begins another stream. */
  flush(): Int16Array;
}

/** @throws RangeError for an invalid rate */
export function createVoiceConverter({ sampleRate, voice }: VoiceConverterOptions): VoiceConverter {
  if (!Number.isInteger(sampleRate) || sampleRate < LOWEST_RATE || sampleRate > HIGHEST_RATE) {
    throw new RangeError(`sampleRate must be a whole number from ${LOWEST_RATE} to ${HIGHEST_RATE}`);
  }
  return voice ? new Conversion(sampleRate, voice) : PASS_THROUGH;
}

const PASS_THROUGH: VoiceConverter = {
  latencySamples: 0,
  push: (chunk) => chunk.slice(),
  flush: () => new Int16Array(0),
};

class Conversion implements VoiceConverter {
  readonly latencySamples: number;
  readonly #sampleRate: number;
  readonly #voice: Voice;
  #stream: Stream;

  constructor(sampleRate: number, voice: Voice) {
    this.#sampleRate = sampleRate;
    this.#voice = voice;
    this.#stream = new Stream(sampleRate, voice);
    this.latencySamples = this.#stream.latency;
  }

  push(chunk: Int16Array): Int16Array {
    return this.#stream.push(chunk);
  }

  flush(): Int16Array {
    const rest = this.#stream.push(new Int16Array(this.latencySamples));
    this.#stream = new Stream(this.#sampleRate, this.#voice);
    return rest;
  }
}

class Stream {
  readonly latency: number;
  readonly #shifter: Shifter;
  readonly #timbre: Timbre;
  readonly #limiter: Limiter;
  readonly #input: Float32Array;
  readonly #output: Float64Array;
  readonly #plain: Float32Array;
  readonly #forget: number;
  /** Power of the input voice, and of its conversion without the loudness correction. */
  #powerIn: number;
  #powerOut: number;
  /** Energy of both since the last step. */
  #sumIn = 0;
  #sumOut = 0;

  constructor(sampleRate: number, { pitchHz, formantShift, timbre }: Voice) {
    this.#shifter = new Shifter({ sampleRate, pitchHz, formantShift });
    this.#timbre = new Timbre(timbre, sampleRate);
    this.#limiter = new Limiter(sampleRate);
    this.latency = this.#shifter.latency + this.#limiter.delay;
    const { hop } = this.#shifter;
    this.#input = new Float32Array(hop);
    this.#output = new Float64Array(hop);
    this.#plain = new Float32Array(hop);
    this.#forget = Math.exp(-hop / (LOUDNESS_SEC * sampleRate));
    this.#powerIn = PRIOR_POWER * 0.05 * sampleRate;
    this.#powerOut = this.#powerIn;
  }

  push(chunk: Int16Array): Int16Array {
    const out = new Int16Array(chunk.length);
    const [input, output] = [this.#input, this.#output];
    for (let at = 0; at < chunk.length; ) {
      const count = Math.min(chunk.length - at, this.#shifter.room);
      for (let i = 0; i < count; i++) input[i] = (chunk[at + i] as number) / FULL_SCALE;
      this.#shifter.step(input, count, output, this.#plain);
      this.#timbre.apply(output, count);
      this.#compare(count);
      this.#limiter.apply(output, count);
      for (let i = 0; i < count; i++) out[at + i] = toSample(output[i] as number);
      at += count;
      if (this.#shifter.stepped) this.#settle();
    }
    return out;
  }

  /** Measures the loudness if there is a voice. */
  #compare(count: number): void {
    if (!this.#shifter.voiced) return;
    const [plain, output] = [this.#plain, this.#output];
    let [sumIn, sumOut] = [0, 0];
    for (let i = 0; i < count; i++) {
      const before = plain[i] as number;
      const after = output[i] as number;
      sumIn += before * before;
      sumOut += after * after;
    }
    this.#sumIn += sumIn;
    this.#sumOut += sumOut;
  }

  #settle(): void {
    this.#timbre.settle();
    if (this.#sumIn === 0) return;
    this.#powerIn = this.#powerIn * this.#forget + this.#sumIn;
    this.#powerOut = this.#powerOut * this.#forget + this.#sumOut / this.#shifter.gain ** 2;
    this.#sumIn = 0;
    this.#sumOut = 0;
    const gain = Math.sqrt(this.#powerIn / this.#powerOut);
    this.#shifter.gain = Math.min(MAX_GAIN, Math.max(1 / MAX_GAIN, gain));
  }
}
