/** Zero crossings of the kernel on each side. */
const REACH = 12;
/** Share of the narrower band that is kept completely. */
const BAND = 0.95;

/** Resamples 16-bit mono sound (windowed sinc, Hann). */
export function resample(samples: Int16Array, from: number, to: number): Int16Array {
  if (from === to) return samples;
  const divisor = greatestCommonDivisor(from, to);
  const up = to / divisor;
  const down = from / divisor;
  const cut = Math.min(1, to / from) * BAND;
  const reach = Math.ceil(REACH / cut);
  const taps = 2 * reach;
  // One row of weights for each position between two samples.
  const kernel = new Float64Array(up * taps);
  for (let phase = 0; phase < up; phase++) {
    for (let k = 0; k < taps; k++) {
      kernel[phase * taps + k] = weightAt(phase / up - (k - reach + 1), cut, reach);
    }
  }
  const out = new Int16Array(Math.floor((samples.length * up) / down));
  for (let i = 0; i < out.length; i++) {
    const at = i * down;
    const middle = Math.floor(at / up);
    const row = (at % up) * taps;
    const first = middle - reach + 1;
    const begin = Math.max(0, -first);
    const end = Math.min(taps, samples.length - first);
    let sum = 0;
    for (let k = begin; k < end; k++) sum += (samples[first + k] as number) * (kernel[row + k] as number);
    out[i] = Math.max(-32_768, Math.min(32_767, Math.round(sum)));
  }
  return out;
}

/** Resamples without rounding and without a table of weights: slower, for sound that is processed further. */
export function resampleFloats(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const cut = Math.min(1, to / from) * BAND;
  const reach = Math.ceil(REACH / cut);
  return Float32Array.from({ length: Math.floor((samples.length * to) / from) }, (_, i) => {
    const at = (i * from) / to;
    const middle = Math.floor(at);
    const last = Math.min(samples.length - 1, middle + reach);
    let sum = 0;
    for (let k = Math.max(0, middle - reach + 1); k <= last; k++)
      sum += (samples[k] as number) * weightAt(at - k, cut, reach);
    return sum;
  });
}

/** Returns the weight of a sample at a distance, in samples, from the wanted position. */
export function weightAt(distance: number, cut: number, reach: number): number {
  const x = Math.PI * distance * cut;
  const sinc = Math.abs(x) < 1e-9 ? 1 : Math.sin(x) / x;
  return sinc * cut * (0.5 + 0.5 * Math.cos((Math.PI * distance) / (reach + 1)));
}

export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
