/** Sample rate that the model expects (mono), in Hz. */
export const SAMPLE_RATE = 16_000;
/** Samples between frames: 10 ms. */
const HOP = 160;
/** Frames per second. */
export const FRAME_RATE = SAMPLE_RATE / HOP;
export const BANDS = 26;

const WINDOW = 400;
const FFT = 512;
const LOW_HZ = 60;
const HIGH_HZ = 7600;
/** Power below which a band contains nothing: the rounding of 16-bit samples. */
const FLOOR = 1e-9;

const mel = (hz: number): number => 1127 * Math.log1p(hz / 700);

/** Energies of a window of sound in bands of equal width on the mel scale, as natural logarithms of power. */
class LogMel {
  readonly #hann = Float64Array.from(
    { length: WINDOW },
    (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / WINDOW),
  );
  readonly #re = new Float64Array(FFT);
  readonly #im = new Float64Array(FFT);
  readonly #cos = Float64Array.from({ length: FFT / 2 }, (_, i) => Math.cos((2 * Math.PI * i) / FFT));
  readonly #sin = Float64Array.from({ length: FFT / 2 }, (_, i) => -Math.sin((2 * Math.PI * i) / FFT));
  /** For each bin the band to its left, and the bin's share in the band to its right. */
  readonly #band = new Int32Array(FFT / 2);
  readonly #share = new Float64Array(FFT / 2);

  constructor() {
    const low = mel(LOW_HZ);
    const step = (mel(HIGH_HZ) - low) / (BANDS + 1);
    for (let bin = 0; bin < FFT / 2; bin++) {
      const at = (mel((bin * SAMPLE_RATE) / FFT) - low) / step;
      this.#band[bin] = at < 0 || at >= BANDS + 1 ? -2 : Math.floor(at) - 1;
      this.#share[bin] = at - Math.floor(at);
    }
  }

  /**
   * Analyses the window around the middle of a hop. `samples` starts `WINDOW_BEFORE` samples before that hop.
   * @param out filled with {@link BANDS} values
   */
  analyse(samples: Float32Array, start: number, out: Float32Array): void {
    const re = this.#re;
    const im = this.#im;
    im.fill(0);
    re.fill(0);
    let mean = 0;
    for (let i = 0; i < WINDOW; i++) mean += samples[start + i] ?? 0;
    mean /= WINDOW;
    for (let i = 0; i < WINDOW; i++) re[i] = ((samples[start + i] ?? 0) - mean) * (this.#hann[i] as number);
    this.#transform();
    const sums = new Float64Array(BANDS);
    for (let bin = 0; bin < FFT / 2; bin++) {
      const band = this.#band[bin] as number;
      if (band < -1) continue;
      const power = (re[bin] as number) ** 2 + (im[bin] as number) ** 2;
      const share = this.#share[bin] as number;
      if (band >= 0) sums[band] = (sums[band] as number) + power * (1 - share);
      if (band + 1 < BANDS) sums[band + 1] = (sums[band + 1] as number) + power * share;
    }
    for (let b = 0; b < BANDS; b++) out[b] = Math.log((sums[b] as number) / WINDOW ** 2 + FLOOR);
  }

  #transform(): void {
    const re = this.#re;
    const im = this.#im;
    for (let i = 1, j = 0; i < FFT; i++) {
      let bit = FFT >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) {
        const r = re[i] as number;
        re[i] = re[j] as number;
        re[j] = r;
      }
    }
    for (let size = 2; size <= FFT; size <<= 1) {
      const half = size >> 1;
      const step = FFT / size;
      for (let start = 0; start < FFT; start += size) {
        for (let k = 0; k < half; k++) {
          const c = this.#cos[k * step] as number;
          const s = this.#sin[k * step] as number;
          const a = start + k;
          const b = a + half;
          const br = re[b] as number;
          const bi = im[b] as number;
          const tr = br * c - bi * s;
          const ti = br * s + bi * c;
          re[b] = (re[a] as number) - tr;
          im[b] = (im[a] as number) - ti;
          re[a] = (re[a] as number) + tr;
          im[a] = (im[a] as number) + ti;
        }
      }
    }
  }
}

/** Samples by which a frame's window begins before its hop, so that both have the same middle. */
const WINDOW_BEFORE = (WINDOW - HOP) / 2;

/** Cuts sound that arrives in pieces into frames; frame i covers the hop from i × 10 ms on. */
export class MelStream {
  readonly #mel = new LogMel();
  /** Samples that are not used up; the first belongs to the window of the next frame. */
  #rest: Float32Array = new Float32Array(WINDOW_BEFORE);

  /** @returns the frames that are now complete, one after the other */
  push(samples: Float32Array): Float32Array {
    const all = new Float32Array(this.#rest.length + samples.length);
    all.set(this.#rest);
    all.set(samples, this.#rest.length);
    const count = Math.max(0, Math.floor((all.length - WINDOW) / HOP) + 1);
    this.#rest = all.slice(count * HOP);
    return this.#frames(all, count);
  }

  /** Returns the frames whose hop has begun but whose window reaches beyond the end. */
  end(): Float32Array {
    const count = Math.max(0, Math.ceil((this.#rest.length - WINDOW_BEFORE) / HOP));
    const all = this.#rest;
    this.#rest = new Float32Array(WINDOW_BEFORE);
    return this.#frames(all, count);
  }

  #frames(all: Float32Array, count: number): Float32Array {
    const out = new Float32Array(count * BANDS);
    for (let i = 0; i < count; i++) this.#mel.analyse(all, i * HOP, out.subarray(i * BANDS, (i + 1) * BANDS));
    return out;
  }
}
