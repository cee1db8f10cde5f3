/** Sample rate, in Hz. Both models of pitch were trained on 128 mel bands up to 8 kHz, 100 columns per second of sound. */
const RATE = 16_000;
export const MEL_BANDS = 128;
export const MEL_HOP = 160;
const FFT = 1_024;
const BINS = FFT / 2 + 1;
const HIGHEST_HZ = RATE / 2;
const QUIETEST = 1e-5;

/** How a model of pitch hears. */
export interface MelKind {
  /** Samples of a column's frame before the column's place. */
  readonly before: number;
  /** What is added to each squared magnitude. */
  readonly floor: number;
  readonly basis: readonly MelBand[];
}

interface MelBand {
  readonly first: number;
  readonly weights: Float64Array;
}

const HANN = Float64Array.from({ length: FFT }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FFT));
const [COS, SIN] = [Math.cos, Math.sin].map((of) =>
  Float64Array.from({ length: FFT / 2 }, (_, i) => of((2 * Math.PI * i) / FFT)),
) as [Float64Array, Float64Array];
/** Position of each value before the transform (bit reversal). */
const REVERSED = Uint16Array.from({ length: FFT }, (_, i) => {
  let reversed = 0;
  for (let bit = 1, from = i; bit < FFT; bit <<= 1, from >>= 1) reversed = (reversed << 1) | (from & 1);
  return reversed;
});

/** Mel scale of HTK (Young et al., "The HTK Book"). */
const HTK: Scale = {
  toMel: (hz) => 2_595 * Math.log10(1 + hz / 700),
  toHz: (mel) => 700 * (10 ** (mel / 2_595) - 1),
};
/** Mel scale of Slaney's Auditory Toolbox (1998): straight up to 1,000 Hz, at 15, and logarithmic beyond. */
const SLANEY: Scale = {
  toMel: (hz) => (hz < 1_000 ? (3 * hz) / 200 : 15 + (27 * Math.log(hz / 1_000)) / Math.log(6.4)),
  toHz: (mel) => (mel < 15 ? (200 * mel) / 3 : 1_000 * 6.4 ** ((mel - 15) / 27)),
};

/** RMVPE (`MelSpectrogram` of RVC-Project's `rmvpe.py`): columns are centred on every 160th sample. */
export const RMVPE_MEL: MelKind = { before: FFT / 2, floor: 0, basis: melBasis(HTK, 30) };
/** FCPE (`mel_extractor.py` of CNChTu/FCPE): columns are centred on the middle of every 160 samples. */
export const FCPE_MEL: MelKind = {
  before: (FFT - MEL_HOP) / 2,
  floor: 1e-9,
  basis: melBasis(SLANEY, 0),
};

/** Computes the bands of a window that moves over a stream. Columns of the window before are not computed again. */
export class LogMel {
  readonly #kind: MelKind;
  readonly #re = new Float64Array(FFT);
  readonly #im = new Float64Array(FFT);
  readonly #magnitudes = new Float64Array(BINS);
  constructor(kind: MelKind) {
    this.#kind = kind;
  }

  #last: { readonly length: number; readonly columns: number; readonly bands: Float32Array } | undefined;

  /**
   * Returns natural logarithms of the magnitudes, band by band.
   * @param samples the ends are mirrored, so that there is a column for the first sample
   * @param moved samples by which the window has moved since the last call; undefined for another window
   * @returns `columns` of each band, one band after the other
   */
  next(samples: Float64Array, columns: number, moved?: number): Float32Array<ArrayBuffer> {
    const out = new Float32Array(MEL_BANDS * columns);
    const kept = this.#keep(out, samples.length, columns, moved);
    const missing = Array.from({ length: columns }, (_, column) => column).filter((each) => !kept(each));
    // One transform computes two columns at once, one in the real and one in the imaginary part.
    for (let i = 0; i < missing.length; i += 2) {
      const [a = 0, b] = [missing[i], missing[i + 1]];
      this.#transform(samples, a, b);
      this.#write(out, columns, a, 1);
      if (b !== undefined) this.#write(out, columns, b, -1);
    }
    this.#last = { length: samples.length, columns, bands: out.slice() };
    return out;
  }

  /**
   * Copies known columns. A column with a mirrored end, then or now, is not known. @returns whether a column was
   * copied
   */
  #keep(
    out: Float32Array,
    length: number,
    columns: number,
    moved: number | undefined,
  ): (column: number) => boolean {
    const last = this.#last;
    const by = (moved ?? Number.NaN) / MEL_HOP;
    if (!last || !Number.isInteger(by) || last.length !== length || last.columns !== columns)
      return () => false;
    const { before } = this.#kind;
    const first = Math.ceil(before / MEL_HOP);
    const end = Math.min(columns, Math.floor((length - FFT + before) / MEL_HOP) + 1) - by;
    for (let band = 0; band < MEL_BANDS && first < end; band++) {
      const from = band * columns;
      out.set(last.bands.subarray(from + first + by, from + end + by), from + first);
    }
    return (column) => column >= first && column < end;
  }

  /** Computes the fast Fourier transform (Cooley and Tukey 1965) of the samples around one or two columns. */
  #transform(samples: Float64Array, a: number, b: number | undefined): void {
    const [re, im] = [this.#re, this.#im];
    const { before } = this.#kind;
    load(samples, a * MEL_HOP - before, re);
    if (b === undefined) im.fill(0);
    else load(samples, b * MEL_HOP - before, im);
    for (let size = 2; size <= FFT; size *= 2) {
      const [half, stride] = [size / 2, FFT / size];
      for (let from = 0; from < FFT; from += size) {
        for (let k = 0; k < half; k++) {
          const [low, high] = [from + k, from + k + half];
          const [cos, sin] = [COS[k * stride] as number, SIN[k * stride] as number];
          const tr = (re[high] as number) * cos + (im[high] as number) * sin;
          const ti = (im[high] as number) * cos - (re[high] as number) * sin;
          re[high] = (re[low] as number) - tr;
          im[high] = (im[low] as number) - ti;
          re[low] = (re[low] as number) + tr;
          im[low] = (im[low] as number) + ti;
        }
      }
    }
  }

  /** @param sign 1: the column in the real part, −1: the one in the imaginary part */
  #write(out: Float32Array, columns: number, column: number, sign: 1 | -1): void {
    const [re, im, magnitudes] = [this.#re, this.#im, this.#magnitudes];
    const { basis, floor } = this.#kind;
    for (let bin = 0; bin < BINS; bin++) {
      const mirror = (FFT - bin) % FFT;
      // The even part belongs to the real column, the odd part to the imaginary one.
      const x = (re[bin] as number) + sign * (re[mirror] as number);
      const y = (im[bin] as number) - sign * (im[mirror] as number);
      magnitudes[bin] = Math.sqrt(0.25 * (x * x + y * y) + floor);
    }
    for (let band = 0; band < MEL_BANDS; band++) {
      const { first, weights } = basis[band] as MelBand;
      let sum = 0;
      for (let i = 0; i < weights.length; i++)
        sum += (weights[i] as number) * (magnitudes[first + i] as number);
      out[band * columns + column] = Math.log(Math.max(QUIETEST, sum));
    }
  }
}

/** Loads the samples of a column's frame, weighted, in the order of the transform. */
function load(samples: Float64Array, from: number, into: Float64Array): void {
  const isInside = from >= 0 && from + FFT <= samples.length;
  for (let i = 0; i < FFT; i++) {
    const at = isInside ? from + i : mirrored(from + i, samples.length);
    into[REVERSED[i] as number] = (HANN[i] as number) * (samples[at] as number);
  }
}

function mirrored(at: number, length: number): number {
  const inside = at < 0 ? -at : at >= length ? 2 * (length - 1) - at : at;
  return Math.min(length - 1, Math.max(0, inside));
}

interface Scale {
  toMel(hz: number): number;
  toHz(mel: number): number;
}

/** Returns triangles of equal area, uniform on a mel scale. */
function melBasis({ toMel, toHz }: Scale, lowestHz: number): readonly MelBand[] {
  const step = (toMel(HIGHEST_HZ) - toMel(lowestHz)) / (MEL_BANDS + 1);
  const edges = Array.from({ length: MEL_BANDS + 2 }, (_, i) => toHz(toMel(lowestHz) + i * step));
  return Array.from({ length: MEL_BANDS }, (_, band) => {
    const [left = 0, centre = 0, right = 0] = edges.slice(band, band + 3);
    const all = Float64Array.from({ length: FFT / 2 + 1 }, (_, bin) => {
      const hz = (bin * RATE) / FFT;
      const height = Math.min((hz - left) / (centre - left), (right - hz) / (right - centre));
      return (Math.max(0, height) * 2) / (right - left);
    });
    const first = Math.max(
      0,
      all.findIndex((weight) => weight > 0),
    );
    return { first, weights: all.slice(first, all.findLastIndex((weight) => weight > 0) + 1) };
  });
}
