/** Centres of the bands, an octave apart, in Hz. */
const CENTRES = [125, 250, 500, 1000, 2000, 4000, 8000, 16_000];
/** Bandwidth of an octave. */
const Q = Math.SQRT2;
/** Frequencies per octave at which the curve is fitted. */
const PER_OCTAVE = 2;
/** Assumed gain of a band near 0 dB when its influence on the others is measured, in dB. */
const PROTOTYPE_DB = 6;
const ROUNDS = 4;
/** Value below which a filter's state is set to 0, because denormal numbers cost a hundred times the time. */
const NOTHING = 1e-18;
/** A filter that changes nothing. */
const LEVEL = [1, 0, 0, 0, 0];

export interface TimbrePoint {
  readonly hz: number;
  readonly db: number;
}

/**
 * A curve of gain over frequency, as a cascade of peak filters an octave apart. Filters influence each other's
 * bands, so their gains are the least-squares solution over these influences, as in Välimäki and Liski, "Accurate
 * cascade graphic equalizer" (IEEE Signal Processing Letters 24, 2017). The only delay is the filters' own phase.
 */
export class Timbre {
  readonly #coefficients: Float64Array;
  readonly #state: Float64Array;
  readonly #bands: number;
  readonly #gain: number;

  constructor(curve: readonly TimbrePoint[], sampleRate: number) {
    const centres = CENTRES.filter((hz) => hz < 0.42 * sampleRate);
    const level = curve.length
      ? centres.reduce((sum, hz) => sum + curveDb(curve, hz), 0) / centres.length
      : 0;
    this.#gain = 10 ** (level / 20);
    const gains = solveGains(curve, level, centres, sampleRate);
    const used = centres.flatMap((hz, i) =>
      Math.abs(gains[i] as number) > 0.05 ? [[hz, gains[i] as number]] : [],
    );
    const filters = used.map(([hz, db]) => peak(hz as number, db as number, sampleRate));
    if (filters.length % 2 === 1) filters.push(LEVEL);
    this.#bands = filters.length;
    this.#coefficients = new Float64Array(filters.flat());
    this.#state = new Float64Array(2 * filters.length);
  }

  apply(samples: Float64Array, count: number): void {
    if (count === 0) return;
    for (let i = 0; i < count; i++) samples[i] = (samples[i] as number) * this.#gain;
    for (let band = 0; band < this.#bands; band += 2) this.#applyTwo(band, samples, count);
  }

  /** Applies two consecutive bands, the second one sample behind the first, so that neither waits for the other. */
  #applyTwo(band: number, samples: Float64Array, count: number): void {
    const [c, state, at] = [this.#coefficients, this.#state, 5 * band];
    const [b0, b1, b2] = [c[at] as number, c[at + 1] as number, c[at + 2] as number];
    const [a1, a2] = [c[at + 3] as number, c[at + 4] as number];
    const [d0, d1, d2] = [c[at + 5] as number, c[at + 6] as number, c[at + 7] as number];
    const [e1, e2] = [c[at + 8] as number, c[at + 9] as number];
    let s1 = state[2 * band] as number;
    let s2 = state[2 * band + 1] as number;
    let t1 = state[2 * band + 2] as number;
    let t2 = state[2 * band + 3] as number;
    let between = 0;
    for (let i = 0; i < count; i++) {
      const x = samples[i] as number;
      const y = b0 * x + s1;
      s1 = b1 * x - a1 * y + s2;
      s2 = b2 * x - a2 * y;
      if (i > 0) {
        const z = d0 * between + t1;
        t1 = d1 * between - e1 * z + t2;
        t2 = d2 * between - e2 * z;
        samples[i - 1] = z;
      }
      between = y;
    }
    const z = d0 * between + t1;
    t1 = d1 * between - e1 * z + t2;
    t2 = d2 * between - e2 * z;
    samples[count - 1] = z;
    state[2 * band] = s1;
    state[2 * band + 1] = s2;
    state[2 * band + 2] = t1;
    state[2 * band + 3] = t2;
  }

  /** Clears states that have decayed. Must be called now and then. */
  settle(): void {
    for (let i = 0; i < this.#state.length; i++) {
      if (Math.abs(this.#state[i] as number) < NOTHING) this.#state[i] = 0;
    }
  }
}

/** Interpolates linearly between the points over the logarithm of frequency; constant beyond them. */
export function curveDb(curve: readonly TimbrePoint[], hz: number): number {
  const after = curve.findIndex((point) => point.hz >= hz);
  const right = curve[after];
  const left = curve[after - 1];
  if (!right) return curve.at(-1)?.db ?? 0;
  if (!left) return right.db;
  return left.db + ((right.db - left.db) * Math.log(hz / left.hz)) / Math.log(right.hz / left.hz);
}

function solveGains(
  curve: readonly TimbrePoint[],
  level: number,
  centres: readonly number[],
  sampleRate: number,
): number[] {
  const first = centres[0] ?? 125;
  const grid = Array.from(
    { length: PER_OCTAVE * (centres.length - 1) + 1 },
    (_, i) => first * 2 ** (i / PER_OCTAVE),
  );
  const target = grid.map((hz) => curveDb(curve, hz) - level);
  let gains = centres.map((hz) => curveDb(curve, hz) - level);
  for (let round = 0; round < ROUNDS; round++) {
    // Influence of each band at each frequency, relative to its own gain; it depends little on the gain.
    const reach = grid.map((at) =>
      centres.map((hz, band) => {
        const gain = gains[band] as number;
        const db = Math.abs(gain) > 0.1 ? gain : PROTOTYPE_DB;
        return responseDb(peak(hz, db, sampleRate), at, sampleRate) / db;
      }),
    );
    gains = leastSquares(reach, target);
  }
  return gains;
}

/**
 * Returns a peak filter, `[b0, b1, b2, a1, a2]` (Bristow-Johnson, "Cookbook formulae for audio equalizer biquad
 * coefficients").
 */
function peak(hz: number, db: number, sampleRate: number): number[] {
  const a = 10 ** (db / 40);
  const w = (2 * Math.PI * hz) / sampleRate;
  const alpha = Math.sin(w) / (2 * Q);
  const a0 = 1 + alpha / a;
  const cos = -2 * Math.cos(w);
  return [(1 + alpha * a) / a0, cos / a0, (1 - alpha * a) / a0, cos / a0, (1 - alpha / a) / a0];
}

function responseDb(filter: readonly number[], hz: number, sampleRate: number): number {
  const [b0 = 1, b1 = 0, b2 = 0, a1 = 0, a2 = 0] = filter;
  const w = (2 * Math.PI * hz) / sampleRate;
  const power = (c0: number, c1: number, c2: number): number =>
    (c0 + c1 * Math.cos(w) + c2 * Math.cos(2 * w)) ** 2 + (c1 * Math.sin(w) + c2 * Math.sin(2 * w)) ** 2;
  return 10 * Math.log10(power(b0, b1, b2) / power(1, a1, a2));
}

/** Solves `rows · x ≈ target` by the normal equations, which are well conditioned for a few bands. */
function leastSquares(rows: readonly (readonly number[])[], target: readonly number[]): number[] {
  const n = rows[0]?.length ?? 0;
  const m = Array.from({ length: n }, (_, i) =>
    Array.from({ length: n + 1 }, (_, j) =>
      rows.reduce((sum, row, r) => sum + (row[i] as number) * ((j < n ? row[j] : target[r]) as number), 0),
    ),
  );
  for (let i = 0; i < n; i++) {
    const pivot = m[i] as number[];
    for (let k = 0; k < n; k++) {
      const row = m[k] as number[];
      if (k === i) continue;
      const factor = (row[i] as number) / (pivot[i] as number);
      for (let j = i; j <= n; j++) row[j] = (row[j] as number) - factor * (pivot[j] as number);
    }
  }
  return m.map((row, i) => (row[n] as number) / (row[i] as number));
}
