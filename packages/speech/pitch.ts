/** Range of the pitch of speech, in Hz. */
const LOWEST_HZ = 60;
const HIGHEST_HZ = 400;
/** Time between two moments, and length of sound that is compared with itself, in seconds. */
const HOP_SEC = 0.01;
const WINDOW_SEC = 0.03;
/** Least similarity of neighbouring periods in a voice. */
const LEAST_CLARITY = 0.6;
/** Least loudness of a voice, relative to the loudest moment. */
const LEAST_SHARE = 0.1;
/** A later period must be clearer by this factor: twice the true period is as clear as the period itself. */
const EARLIER = 0.9;

/** The pitch of one moment. */
export interface PitchPoint {
  readonly seconds: number;
  readonly hz: number;
}

/**
 * Returns the pitch of speech at its voiced moments, every {@link HOP_SEC}, by the normalised square difference
 * function (McLeod and Wyvill, "A smarter way to find pitch", ICMC 2005).
 * @param samples mono, of any scale
 */
export function pitchOf(samples: ArrayLike<number>, sampleRate: number): PitchPoint[] {
  const window = Math.round(WINDOW_SEC * sampleRate);
  const most = Math.round(sampleRate / LOWEST_HZ);
  const least = Math.round(sampleRate / HIGHEST_HZ);
  const hop = Math.round(HOP_SEC * sampleRate);
  const found: (PitchPoint & { power: number })[] = [];
  for (let at = 0; at + window + most < samples.length; at += hop) {
    const power = powerOf(samples, at, window);
    const period = periodOf(samples, at, window, least, most);
    if (period)
      found.push({ seconds: (at + (window + period) / 2) / sampleRate, hz: sampleRate / period, power });
  }
  const loudest = found.reduce((top, { power }) => Math.max(top, power), 0);
  return found.filter(({ power }) => power > LEAST_SHARE ** 2 * loudest);
}

/** Returns the median pitch of speech, in Hz; undefined without a voice. */
export function medianPitch(samples: ArrayLike<number>, sampleRate: number): number | undefined {
  const sorted = pitchOf(samples, sampleRate)
    .map(({ hz }) => hz)
    .sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

function powerOf(samples: ArrayLike<number>, at: number, length: number): number {
  let sum = 0;
  for (let i = at; i < at + length; i++) sum += (samples[i] as number) ** 2;
  return sum / length;
}

/** Returns the period of a moment in samples; undefined without a clear one. */
function periodOf(
  samples: ArrayLike<number>,
  at: number,
  window: number,
  least: number,
  most: number,
): number | undefined {
  let best: number | undefined;
  let clearest = LEAST_CLARITY;
  let before = 0;
  let rising = false;
  // The first lags are like the moment itself: a period begins after the first fall.
  let fallen = false;
  for (let lag = Math.max(2, least >> 1); lag <= most; lag++) {
    let product = 0;
    let energy = 0;
    for (let i = at; i < at + window; i++) {
      const [a, b] = [samples[i] as number, samples[i + lag] as number];
      product += a * b;
      energy += a * a + b * b;
    }
    const clarity = energy > 0 ? (2 * product) / energy : 0;
    if (clarity < 0.3) fallen = true;
    if (
      clarity < before &&
      rising &&
      fallen &&
      lag - 1 >= least &&
      before * EARLIER > clearest * (best ? 1 : EARLIER)
    ) {
      best = lag - 1;
      clearest = before;
    }
    rising = clarity > before;
    before = clarity;
  }
  return best;
}
