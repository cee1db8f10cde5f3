/** Sample rate, in Hz. Wav2Lip was trained on 80 mel bands at 80 columns per second of sound at 16 kHz. */
export const SAMPLE_RATE = 16_000;
export const BANDS = 80;
/** Number of columns for one picture: 0.2 s. */
export const WINDOW_COLUMNS = 16;
const FFT = 800;
const HOP = 200;
const BINS = FFT / 2 + 1;
const LOW_HZ = 55;
const HIGH_HZ = 7600;
const PRE_EMPHASIS = 0.97;
const COLUMNS_A_SECOND = SAMPLE_RATE / HOP;
/** Slaney's mel scale: the mel at which it stops being linear, and the logarithm of one mel above that. */
const LINEAR_MELS = 15;
const LOG_STEP = Math.log(6.4) / 27;
const MOST_GAIN = 10 ** (30 / 20);
/** Value of silence, the smallest one. */
const SILENCE = -4;

const HANN = Float64Array.from({ length: FFT }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FFT));
const COS = Float64Array.from({ length: FFT }, (_, i) => Math.cos((2 * Math.PI * i) / FFT));
const SIN = Float64Array.from({ length: FFT }, (_, i) => -Math.sin((2 * Math.PI * i) / FFT));
const BASIS = melBasis();

/**
 * Returns one column: magnitudes of the spectrum in mel bands, in decibels above −100, scaled so that −80 to +20 dB
 * become −4 to 4 (Wav2Lip's own scale).
 * @param samples FFT samples, with the pre-emphasis
 */
function melColumn(samples: Float64Array): Float32Array {
  const input = samples.map((value, i) => value * (HANN[i] as number));
  const re = new Float64Array(FFT);
  const im = new Float64Array(FFT);
  transform(input, 0, 1, re, im, 0, FFT);
  const out = new Float32Array(BANDS);
  for (const [band, { first, weights }] of BASIS.entries()) {
    let sum = 0;
    for (let i = 0; i < weights.length; i++) {
      sum += (weights[i] as number) * Math.hypot(re[first + i] as number, im[first + i] as number);
    }
    const decibels = 20 * Math.log10(Math.max(1e-5, sum)) - 20;
    out[band] = Math.min(4, Math.max(-4, (8 * (decibels + 100)) / 100 - 4));
  }
  return out;
}

/**
 * Returns the factor by which a sound of this peak becomes as loud as the sounds of training: its peak becomes 1, as
 * in `prepare_audio` of FaceFusion's `audio.py`. Of quiet speech the network would draw a mouth that hardly opens.
 * The factor is at most 30 dB, so that the noise of a sound without speech stays silent.
 */
export function gainOf(peak: number): number {
  return Math.min(MOST_GAIN, 1 / Math.max(peak, 1 / MOST_GAIN));
}

/** Reads the windows of a sound from its start, with no more of it in memory than they need. */
export class MelReader {
  readonly #source: AsyncIterator<Float32Array>;
  readonly #gain: number;
  #samples = new Float64Array(0);
  /** Number of the first sample and of the first column in memory. */
  #from = -FFT / 2;
  #columns: Float32Array[] = [];
  #firstColumn = 0;
  #before = 0;
  #ended = false;

  /** @param gain factor on all samples; see {@link gainOf} */
  constructor(sound: AsyncIterable<Float32Array>, gain = 1) {
    this.#source = sound[Symbol.asyncIterator]();
    this.#gain = gain;
    // Silence before the sound centres the first column on the first sample.
    this.#samples = new Float64Array(FFT / 2);
  }

  /**
   * Returns the 80 × 16 values of the sound after a moment, or the last available ones near the end. Moments may go
   * back by at most one window.
   */
  async window(seconds: number): Promise<Float32Array<ArrayBuffer>> {
    const wanted = Math.max(0, Math.floor(seconds * COLUMNS_A_SECOND));
    await this.#read(wanted + WINDOW_COLUMNS);
    const end = this.#firstColumn + this.#columns.length;
    const start = Math.max(this.#firstColumn, Math.min(wanted, end - WINDOW_COLUMNS));
    const out = new Float32Array(BANDS * WINDOW_COLUMNS).fill(SILENCE);
    for (let t = 0; t < WINDOW_COLUMNS; t++) {
      const column = this.#columns[start + t - this.#firstColumn];
      if (!column) continue;
      for (let band = 0; band < BANDS; band++) out[band * WINDOW_COLUMNS + t] = column[band] as number;
    }
    return out;
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }

  async #read(until: number): Promise<void> {
    while (this.#firstColumn + this.#columns.length < until) {
      const at = (this.#firstColumn + this.#columns.length) * HOP - FFT / 2 - this.#from;
      if (at + FFT <= this.#samples.length) {
        this.#columns.push(melColumn(this.#samples.slice(at, at + FFT)));
        // A few windows are kept, because the last ones may still be requested while the end is unknown.
        if (this.#columns.length > 4 * WINDOW_COLUMNS) {
          this.#columns.splice(0, WINDOW_COLUMNS);
          this.#firstColumn += WINDOW_COLUMNS;
        }
        continue;
      }
      if (this.#ended) return;
      await this.#more(at);
    }
  }

  /** Reads the next piece of sound and forgets everything before `keep`. */
  async #more(keep: number): Promise<void> {
    const { done, value } = await this.#source.next();
    // Silence after the end completes the column of its last sample.
    const piece = done ? new Float32Array(FFT / 2) : value;
    this.#ended = done === true;
    const rest = this.#samples.subarray(keep);
    const samples = new Float64Array(rest.length + piece.length);
    samples.set(rest);
    for (let i = 0; i < piece.length; i++) {
      const sample = this.#gain * (piece[i] as number);
      samples[rest.length + i] = done ? 0 : sample - PRE_EMPHASIS * this.#before;
      this.#before = sample;
    }
    this.#samples = samples;
    this.#from += keep;
  }
}

/** Computes the discrete Fourier transform by its factors 2 and 5 (Cooley and Tukey 1965). */
function transform(
  input: Float64Array,
  offset: number,
  stride: number,
  re: Float64Array,
  im: Float64Array,
  out: number,
  n: number,
): void {
  if (n === 1) {
    re[out] = input[offset] as number;
    im[out] = 0;
    return;
  }
  const p = n % 5 === 0 ? 5 : 2;
  const m = n / p;
  for (let q = 0; q < p; q++) transform(input, offset + q * stride, stride * p, re, im, out + q * m, m);
  const step = FFT / n;
  const tr = new Float64Array(p);
  const ti = new Float64Array(p);
  for (let k = 0; k < m; k++) {
    for (let q = 0; q < p; q++) {
      const turn = (q * k * step) % FFT;
      const [a, b] = [re[out + q * m + k] as number, im[out + q * m + k] as number];
      tr[q] = a * (COS[turn] as number) - b * (SIN[turn] as number);
      ti[q] = a * (SIN[turn] as number) + b * (COS[turn] as number);
    }
    for (let r = 0; r < p; r++) {
      let sr = 0;
      let si = 0;
      for (let q = 0; q < p; q++) {
        const turn = (q * r * (FFT / p)) % FFT;
        sr += (tr[q] as number) * (COS[turn] as number) - (ti[q] as number) * (SIN[turn] as number);
        si += (tr[q] as number) * (SIN[turn] as number) + (ti[q] as number) * (COS[turn] as number);
      }
      re[out + r * m + k] = sr;
      im[out + r * m + k] = si;
    }
  }
}

/**
 * Returns triangles of equal area on Slaney's mel scale: linear below 1 kHz, logarithmic above (Auditory Toolbox,
 * 1998).
 */
function melBasis(): readonly { first: number; weights: Float64Array }[] {
  const low = toMel(LOW_HZ);
  const step = (toMel(HIGH_HZ) - low) / (BANDS + 1);
  const edges = Array.from({ length: BANDS + 2 }, (_, i) => toHz(low + i * step));
  return Array.from({ length: BANDS }, (_, band) => {
    const [left = 0, centre = 0, right = 0] = edges.slice(band, band + 3);
    const all = Float64Array.from({ length: BINS }, (_, bin) => {
      const hz = (bin * SAMPLE_RATE) / FFT;
      const height = Math.min((hz - left) / (centre - left), (right - hz) / (right - centre));
      return (Math.max(0, height) * 2) / (right - left);
    });
    const first = Math.max(
      0,
      all.findIndex((weight) => weight > 0),
    );
    const last = all.findLastIndex((weight) => weight > 0);
    return { first, weights: all.slice(first, last + 1) };
  });
}

function toMel(hz: number): number {
  return hz < 1000 ? (hz * 3) / 200 : LINEAR_MELS + Math.log(hz / 1000) / LOG_STEP;
}

function toHz(mel: number): number {
  return mel < LINEAR_MELS ? (mel * 200) / 3 : 1000 * Math.exp(LOG_STEP * (mel - LINEAR_MELS));
}
