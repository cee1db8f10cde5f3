/** Sound as RMVPE was trained on it: 128 mel bands of 30 Hz to 8 kHz, 100 columns a second of sound at 16 kHz. */
const RATE = 16_000;
export const MEL_BANDS = 128;
export const MEL_HOP = 160;
const FFT = 1_024;
const LOWEST_HZ = 30;
const HIGHEST_HZ = RATE / 2;
const QUIETEST = 1e-5;

const HANN = Float64Array.from({ length: FFT }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FFT));
const BASIS = melBasis();
const [COS, SIN] = [Math.cos, Math.sin].map((of) =>
  Float64Array.from({ length: FFT / 2 }, (_, i) => of((2 * Math.PI * i) / FFT)),
) as [Float64Array, Float64Array];

/**
 * Natural logarithms of the magnitudes, band by band.
 * @param samples ends are mirrored, so that the first column is centred on the first sample
 * @returns `columns` of each band, one band after the other
 */
export function logMel(samples: Float64Array, columns: number): Float32Array<ArrayBuffer> {
  const out = new Float32Array(MEL_BANDS * columns);
  const [re, im] = [new Float64Array(FFT), new Float64Array(FFT)];
  for (let column = 0; column < columns; column++) {
    const from = column * MEL_HOP - FFT / 2;
    for (let i = 0; i < FFT; i++) {
      re[i] = (HANN[i] as number) * (samples[mirrored(from + i, samples.length)] as number);
      im[i] = 0;
    }
    transform(re, im);
    for (const [band, { first, weights }] of BASIS.entries()) {
      let sum = 0;
      for (let i = 0; i < weights.length; i++)
        sum += (weights[i] as number) * Math.hypot(re[first + i] as number, im[first + i] as number);
      out[band * columns + column] = Math.log(Math.max(QUIETEST, sum));
    }
  }
  return out;
}

function mirrored(at: number, length: number): number {
  const inside = at < 0 ? -at : at >= length ? 2 * (length - 1) - at : at;
  return Math.min(length - 1, Math.max(0, inside));
}

/** Triangles of equal area, even on the mel scale of HTK (Young et al., "The HTK Book"). */
function melBasis(): readonly { readonly first: number; readonly weights: Float64Array }[] {
  const toMel = (hz: number) => 2_595 * Math.log10(1 + hz / 700);
  const toHz = (mel: number) => 700 * (10 ** (mel / 2_595) - 1);
  const step = (toMel(HIGHEST_HZ) - toMel(LOWEST_HZ)) / (MEL_BANDS + 1);
  const edges = Array.from({ length: MEL_BANDS + 2 }, (_, i) => toHz(toMel(LOWEST_HZ) + i * step));
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

/** Fast Fourier transform in place (Cooley and Tukey 1965). */
function transform(re: Float64Array, im: Float64Array): void {
  for (let i = 1, j = 0; i < FFT; i++) {
    let bit = FFT >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j] as number, re[i] as number];
      [im[i], im[j]] = [im[j] as number, im[i] as number];
    }
  }
  for (let size = 2; size <= FFT; size *= 2) {
    const [half, stride] = [size / 2, FFT / size];
    for (let from = 0; from < FFT; from += size) {
      for (let k = 0; k < half; k++) {
        const [a, b] = [from + k, from + k + half];
        const [cos, sin] = [COS[k * stride] as number, SIN[k * stride] as number];
        const tr = (re[b] as number) * cos + (im[b] as number) * sin;
        const ti = (im[b] as number) * cos - (re[b] as number) * sin;
        re[b] = (re[a] as number) - tr;
        im[b] = (im[a] as number) - ti;
        re[a] = (re[a] as number) + tr;
        im[a] = (im[a] as number) + ti;
      }
    }
  }
}
