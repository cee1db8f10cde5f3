import type { Phone } from '@semblance/speech/sounds';
import { seededRandom } from '../random.ts';

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
  /** Rise of the shoulders. */
  readonly breath: number;
}

/** A stressed vowel. */
interface Stress {
  readonly at: number;
  /** Size of the nod, and of the rise of the brows, which not every stress has; 1 is a usual one. */
  readonly nod: number;
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
const STRESS_APART_SEC = 0.9;
/** Weight of a stressed vowel relative to the middle one of those around it, within a time in seconds. */
const STRESS_MORE = 1.45;
const AROUND_SEC = 2.5;
/** A nod on a stress: size, time in which the head goes down, and in which it comes up again. */
const NOD = 0.045;
const [DOWN_SEC, UP_SEC] = [0.15, 0.3];
/** The head rises a little before it nods. */
const BEFORE = { share: 0.25, sec: 0.3 };
const RAISE = 0.075;
/** Share of the stresses on which the brows rise too. */
const RAISED = 0.6;
/** Height of a breath in IOD, about 0.4 % of a portrait, its frequency in Hz, and the head's share of it. */
const BREATH = 0.04;
const BREATH_RATE = 0.25;
const BREATH_HEAD = 0.4;
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
  readonly stresses: readonly Stress[];
  readonly #waves: Readonly<Record<keyof typeof SWAY, Wave>>;
  readonly #seconds: number;
  readonly #breath: { readonly rate: number; readonly phase: number };

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
    this.stresses = stressesOf(phones, random);
    this.#breath = { rate: BREATH_RATE * (0.9 + 0.2 * random()), phase: 2 * Math.PI * random() };
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
    let [nod, raised] = [0, 0];
    for (const { at, ...sizes } of near(this.stresses, seconds, 4 * UP_SEC, ({ at }) => at)) {
      const before = bump(seconds - at + BEFORE.sec, DOWN_SEC, DOWN_SEC);
      nod += sizes.nod * (bump(seconds - at, DOWN_SEC, UP_SEC) - BEFORE.share * before);
      raised += sizes.brows * bump(seconds - at, DOWN_SEC, UP_SEC);
    }
    let eyes = 1;
    for (const at of near(this.blinks, seconds, 0.5, (at) => at)) eyes = Math.min(eyes, lid(seconds - at));
    const { rate, phase } = this.#breath;
    const breath = settled * BREATH * (0.5 - 0.5 * Math.cos(2 * Math.PI * rate * seconds + phase));
    return {
      yaw: sway('yaw'),
      pitch: sway('pitch') + settled * NOD * nod,
      roll: sway('roll'),
      dx: sway('dx'),
      dy: sway('dy') - BREATH_HEAD * breath,
      eyes,
      brows: settled * RAISE * raised,
      breath,
    };
  }
}

/** Returns 1 at 0, and falls off to both sides. */
function bump(seconds: number, rise: number, fall: number): number {
  return Math.exp(-((seconds / (seconds < 0 ? rise : fall)) ** 2));
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

/** Finds the vowels that are longer and louder than those around them, as far apart as stressed words are. */
function stressesOf(phones: readonly Phone[], random: () => number): Stress[] {
  const vowels = phones
    .filter(({ loudness }) => loudness !== undefined)
    .map(({ start, end, loudness = 0 }) => ({
      at: (start + end) / 2,
      weight: loudness * Math.min(0.25, end - start),
    }));
  const stands = vowels
    .map(({ at, weight }) => {
      const around = near(vowels, at, AROUND_SEC, (vowel) => vowel.at).map((vowel) => vowel.weight);
      around.sort((a, b) => a - b);
      return { at, more: weight / Math.max(1e-6, around[around.length >> 1] as number) };
    })
    .filter(({ more }) => more >= STRESS_MORE)
    .sort((a, b) => b.more - a.more);
  const chosen: { at: number; more: number }[] = [];
  for (const one of stands) {
    if (chosen.every(({ at }) => Math.abs(at - one.at) >= STRESS_APART_SEC)) chosen.push(one);
  }
  chosen.sort((a, b) => a.at - b.at);
  return chosen.map(({ at, more }) => {
    const nod = Math.min(1.2, 0.5 * more) * (0.7 + 0.5 * random());
    return { at, nod, brows: random() < RAISED ? 0.6 + 0.5 * random() : 0 };
  });
}

/** Returns what of a list in order of time is near. */
function near<T>(list: readonly T[], seconds: number, within: number, timeOf: (one: T) => number): T[] {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeOf(list[middle] as T) < seconds - within) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < list.length && timeOf(list[end] as T) <= seconds + within) end++;
  return list.slice(low, end);
}

function smooth(x: number): number {
  const t = Math.min(1, Math.max(0, x));
  return t * t * (3 - 2 * t);
}
