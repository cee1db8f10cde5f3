import type { Phone } from '@semblance/speech/sounds';
import { seededRandom } from './random.ts';

/** The motions of a speaker's face beside the mouth. Angles are in radians, lengths in IOD. */
export interface FaceCommand {
  readonly yaw: number;
  readonly pitch: number;
  readonly roll: number;
  readonly dx: number;
  readonly dy: number;
  /** Openness of the eyes: 1 as in the still, 0 closed. */
  readonly eyes: number;
  /** Rise of the brows. */
  readonly brows: number;
}

/** Median time between blinks, in seconds. Speakers blink every 3 s on average, seldom under 1 s or over 7 s. */
const BLINK_MEDIAN_SEC = 2.8;
const BLINK_SPREAD = 0.45;
const BLINK_LEAST_SEC = 1.1;
const BLINK_MOST_SEC = 7;
/** A lid falls faster than it rises. */
const [FALL_SEC, SHUT_SEC, RISE_SEC] = [0.08, 0.05, 0.15];
/** Speakers blink at the ends of phrases: a due blink moves to a pause within this time, in seconds. */
const TO_PAUSE_SEC = 0.6;
const PAUSE_SEC = 0.12;

/** Least time between stressed words, in seconds. */
const STRESS_APART_SEC = 1.3;
/** Largest share of the vowels that are stressed. */
const STRESS_SHARE = 0.12;
const NOD = 0.03;
const RAISE = 0.055;
const NOD_SEC = 0.22;
/** Time in which the head leaves the still's pose and returns to it, in seconds. */
const SETTLE_SEC = 0.8;

/** Slow sways of a head: amplitude, and frequencies in Hz without a common period. */
const SWAY = {
  yaw: { size: 0.05, rates: [0.11, 0.23, 0.41] },
  pitch: { size: 0.022, rates: [0.13, 0.29, 0.53] },
  roll: { size: 0.022, rates: [0.09, 0.19, 0.37] },
  dx: { size: 0.02, rates: [0.07, 0.17, 0.31] },
  dy: { size: 0.012, rates: [0.08, 0.21, 0.33] },
} as const;

interface Wave {
  readonly size: number;
  readonly parts: readonly { readonly rate: number; readonly phase: number }[];
}

/** Blinks, brows and small motions of the head. The same script and voice give the same motions. */
export class FaceTrack {
  readonly blinks: readonly number[];
  /** Middles of the stressed vowels. */
  readonly stresses: readonly number[];
  readonly #waves: Readonly<Record<keyof typeof SWAY, Wave>>;
  readonly #seconds: number;

  constructor(phones: readonly Phone[], seconds: number, seed: string) {
    const random = seededRandom(seed);
    this.#seconds = seconds;
    this.#waves = Object.fromEntries(
      Object.entries(SWAY).map(([name, { size, rates }]) => [
        name,
        {
          size,
          parts: rates.map((rate) => ({
            rate: rate * (0.85 + 0.3 * random()),
            phase: 2 * Math.PI * random(),
          })),
        },
      ]),
    ) as unknown as Record<keyof typeof SWAY, Wave>;
    this.blinks = blinksOf(phones, seconds, random);
    this.stresses = stressesOf(phones);
  }

  at(seconds: number): FaceCommand {
    const settled = smooth(seconds / SETTLE_SEC) * smooth((this.#seconds - seconds) / SETTLE_SEC);
    const sway = (name: keyof typeof SWAY): number => {
      const { size, parts } = this.#waves[name];
      const sum = parts.reduce(
        (total, { rate, phase }) => total + Math.sin(2 * Math.PI * rate * seconds + phase),
        0,
      );
      return (settled * size * sum) / parts.length / 0.58;
    };
    let stress = 0;
    for (const at of near(this.stresses, seconds, 2 * NOD_SEC))
      stress += Math.exp(-(((seconds - at) / NOD_SEC) ** 2));
    let eyes = 1;
    for (const at of near(this.blinks, seconds, 0.5)) eyes = Math.min(eyes, lid(seconds - at));
    return {
      yaw: sway('yaw'),
      pitch: sway('pitch') + settled * NOD * stress,
      roll: sway('roll'),
      dx: sway('dx'),
      dy: sway('dy'),
      eyes,
      brows: RAISE * stress,
    };
  }
}

/** @param seconds since the lid began to fall */
function lid(seconds: number): number {
  if (seconds <= 0) return 1;
  if (seconds < FALL_SEC) return 1 - smooth(seconds / FALL_SEC);
  if (seconds < FALL_SEC + SHUT_SEC) return 0;
  return smooth((seconds - FALL_SEC - SHUT_SEC) / RISE_SEC);
}

function blinksOf(phones: readonly Phone[], seconds: number, random: () => number): number[] {
  const pauses = phones.filter(({ sound, start, end }) => sound === undefined && end - start >= PAUSE_SEC);
  const out: number[] = [];
  let pause = 0;
  for (let at = 0.6 + 1.5 * random(); at < seconds - 0.4; ) {
    while (pause < pauses.length - 1 && (pauses[pause] as Phone).start < at - TO_PAUSE_SEC) pause++;
    const start = pauses[pause]?.start;
    const last = out.at(-1) ?? -Infinity;
    if (start !== undefined && Math.abs(start - at) < TO_PAUSE_SEC && start - last > BLINK_LEAST_SEC)
      at = start;
    if (at < seconds - 0.4) out.push(at);
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const wait = BLINK_MEDIAN_SEC * Math.exp(BLINK_SPREAD * normal);
    at += Math.min(BLINK_MOST_SEC, Math.max(BLINK_LEAST_SEC, wait));
  }
  return out;
}

/** Returns the middles of long and loud vowels, as far apart as stressed words are. */
function stressesOf(phones: readonly Phone[]): number[] {
  const vowels = phones
    .filter(({ loudness }) => loudness !== undefined)
    .map(({ start, end, loudness = 0 }) => ({
      at: (start + end) / 2,
      weight: loudness * Math.min(0.25, end - start),
    }));
  const strongest = [...vowels].sort((a, b) => b.weight - a.weight);
  const bound = strongest[Math.floor(strongest.length * STRESS_SHARE)]?.weight ?? Infinity;
  const out: number[] = [];
  for (const { at, weight } of vowels) {
    if (weight >= bound && at - (out.at(-1) ?? -Infinity) >= STRESS_APART_SEC) out.push(at);
  }
  return out;
}

/** Returns the values of a rising list within a distance. */
function near(times: readonly number[], seconds: number, within: number): readonly number[] {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) < seconds - within) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < times.length && (times[end] as number) <= seconds + within) end++;
  return times.slice(low, end);
}

function smooth(x: number): number {
  const t = Math.min(1, Math.max(0, x));
  return t * t * (3 - 2 * t);
}
