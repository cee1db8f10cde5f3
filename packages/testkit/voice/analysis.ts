/**
 * Sound measures for tests and benchmarks without code of the converter: pitch by the autocorrelation of whole
 * windows, formants by comparing long-term spectra.
 */

/**
 * Returns the pitch of each 10 ms in Hz; 0 without one. It is the tallest peak of the autocorrelation of 50 ms,
 * divided by that of the window.
 */
export function pitchOf(samples: Int16Array, rate: number): number[] {
  const step = Math.floor(rate / 8_000);
  const low = lowered(samples, step);
  const lowRate = rate / step;
  const length = Math.round(0.05 * lowRate);
  const window = Float64Array.from(
    { length },
    (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / length),
  );
  const [least, most] = [Math.floor(lowRate / 550), Math.ceil(lowRate / 58)];
  const own = correlation(window, most + 1);
  const out: number[] = [];
  for (let at = 0; at + length <= low.length; at += lowRate / 100) {
    const frame = window.map((weight, i) => weight * (low[Math.round(at) + i] as number));
    const all = correlation(frame, most + 1);
    const zero = all[0] as number;
    const like = (lag: number) => ((all[lag] as number) * (own[0] as number)) / (zero * (own[lag] as number));
    let [best, top] = [0, 0];
    for (let lag = least; lag <= most; lag++) {
      // Twice the period correlates equally well, so the shorter one is preferred.
      const value = like(lag) - 0.06 * Math.log2(lag / least);
      if (value > top && like(lag) >= like(lag - 1) && like(lag) >= like(lag + 1)) [best, top] = [lag, value];
    }
    const silent = zero < 1e-7 * length * 32_768 ** 2;
    if (best === 0 || silent || like(best) < 0.6) out.push(0);
    else {
      const [before, here, after] = [like(best - 1), like(best), like(best + 1)];
      out.push(lowRate / (best + (0.5 * (before - after)) / (before - 2 * here + after)));
    }
  }
  return out;
}

/** Returns every `step`th sample of the mean over `2 · step`. */
function lowered(samples: Int16Array, step: number): Float64Array {
  return Float64Array.from({ length: Math.floor(samples.length / step) - 2 }, (_, i) => {
    let sum = 0;
    for (let k = 0; k < 2 * step; k++) sum += samples[i * step + k] as number;
    return sum / (2 * step);
  });
}

function correlation(x: Float64Array, lags: number): Float64Array {
  return Float64Array.from({ length: lags + 1 }, (_, lag) => {
    let sum = 0;
    for (let i = 0; i + lag < x.length; i++) sum += (x[i] as number) * (x[i + lag] as number);
    return sum;
  });
}

/** Distance between the values of a spectrum, in Hz. */
const BIN_HZ = 48_000 / 8192;

/**
 * Returns the mean power spectrum of the loud parts in dB, {@link BIN_HZ} apart, smoothed until no harmonics
 * remain.
 * @param smoothHz half the width of the average
 */
export function spectrum(samples: Int16Array, smoothHz: number): Float64Array {
  const length = 8192;
  const power = new Float64Array(length / 2);
  const frames: Float64Array[] = [];
  for (let at = 0; at + length <= samples.length; at += length / 4) {
    const re = Float64Array.from(
      { length },
      (_, i) => (samples[at + i] as number) * (0.5 - 0.5 * Math.cos((2 * Math.PI * i) / length)),
    );
    const im = new Float64Array(length);
    fft(re, im);
    frames.push(power.map((_, i) => (re[i] as number) ** 2 + (im[i] as number) ** 2));
  }
  const sums = frames.map((frame) => frame.reduce((a, b) => a + b, 0));
  const loudest = Math.max(...sums);
  for (const [k, frame] of frames.entries()) {
    if ((sums[k] as number) < loudest / 100) continue;
    for (let i = 0; i < power.length; i++) power[i] = (power[i] as number) + (frame[i] as number);
  }
  const reach = Math.round((2 * smoothHz) / BIN_HZ);
  return power.map((_, i) => {
    let [sum, weights] = [0, 0];
    for (let k = Math.max(0, i - reach); k <= Math.min(power.length - 1, i + reach); k++) {
      const weight = Math.exp(-2 * (((k - i) * BIN_HZ) / smoothHz) ** 2);
      sum += weight * (power[k] as number);
      weights += weight;
    }
    return 10 * Math.log10(sum / weights + 1);
  });
}

/**
 * Returns the factor between the formants of two spectra: the frequency stretch that makes them most alike between
 * 250 and 4000 Hz, apart from level and tilt.
 */
export function formantFactor(from: Float64Array, to: Float64Array): number {
  const misfit = (factor: number): number => {
    const points: [number, number][] = [];
    for (let hz = 250; hz <= 4_000; hz *= 1.01) {
      points.push([Math.log(hz), at(to, hz * factor) - at(from, hz)]);
    }
    return residual(points);
  };
  let [best, least] = [1, Number.POSITIVE_INFINITY];
  for (let factor = 0.7; factor < 1.5; factor *= 1.005) {
    const value = misfit(factor);
    if (value < least) [best, least] = [factor, value];
  }
  const [a, b] = [misfit(best / 1.005), misfit(best * 1.005)];
  return best * 1.005 ** ((0.5 * (a - b)) / (a - 2 * least + b));
}

function at(values: Float64Array, hz: number): number {
  const place = hz / BIN_HZ;
  const left = Math.floor(place);
  const [a, b] = [values[left] as number, values[left + 1] as number];
  return a + (place - left) * (b - a);
}

/** Returns the mean square residual of a fitted straight line. */
function residual(points: readonly (readonly [number, number])[]): number {
  const mean = (of: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [x, y] = [mean(([px]) => px), mean(([, py]) => py)];
  const slope = mean(([px, py]) => (px - x) * (py - y)) / mean(([px]) => (px - x) ** 2);
  return mean(([px, py]) => (py - y - slope * (px - x)) ** 2);
}

/** Fast Fourier transform of a power of two, in place (Cooley and Tukey 1965). */
function fft(re: Float64Array, im: Float64Array): void {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [re[i], re[j]] = [re[j] as number, re[i] as number];
      [im[i], im[j]] = [im[j] as number, im[i] as number];
    }
  }
  for (let size = 2; size <= n; size *= 2) {
    for (let k = 0; k < size / 2; k++) {
      const cos = Math.cos((2 * Math.PI * k) / size);
      const sin = -Math.sin((2 * Math.PI * k) / size);
      for (let a = k; a < n; a += size) {
        const b = a + size / 2;
        const tr = (re[b] as number) * cos - (im[b] as number) * sin;
        const ti = (re[b] as number) * sin + (im[b] as number) * cos;
        re[b] = (re[a] as number) - tr;
        im[b] = (im[a] as number) - ti;
        re[a] = (re[a] as number) + tr;
        im[a] = (im[a] as number) + ti;
      }
    }
  }
}

/** Returns the level of a sound in dB of full scale. */
export function levelDb(samples: Int16Array): number {
  const sum = samples.reduce((total, value) => total + value * value, 0);
  return 10 * Math.log10(sum / Math.max(1, samples.length) / 32_768 ** 2 + 1e-12);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[sorted.length >> 1];
  if (value === undefined) throw new RangeError('a median of nothing');
  return value;
}

/** Returns Pearson's correlation of two series. */
export function likenessOf(a: readonly number[], b: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (const [i, x] of a.entries()) {
    const [da, db] = [x - ma, (b[i] as number) - mb];
    ab += da * db;
    aa += da * da;
    bb += db * db;
  }
  return ab / Math.sqrt(aa * bb);
}
