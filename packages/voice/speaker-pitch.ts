import { HIGHEST_HZ, LOWEST_HZ } from './pitch-tracker.ts';

/** Width of a pitch class, in octaves. */
const CLASS = 1 / 96;
/** Length of voice after which older voice counts half, in seconds. */
const HALF_LIFE_SEC = 6;
/** Time in which the median is followed: a share of the voice heard so far, and its upper limit in seconds. */
const FOLLOW_SHARE = 0.25;
const FOLLOW_SEC = 1;
/**
 * Length of voice until the median is known, in seconds. Before that it is a guess, and intonation is kept only in
 * part.
 */
const KNOWN_SEC = 0.4;
/** Intonation beyond the target range is compressed into at most this many semitones. */
const KNEE_SEMITONES = 3;
/** Largest ratio of pitches. Beyond it, grains would be repeated or dropped too often. */
const MAX_RATIO = 3.6;

/** Moves a speaker's running median to the middle of a target range, with the intonation around it. */
export class SpeakerPitch {
  readonly #low = Math.log2(LOWEST_HZ) - 0.1;
  readonly #classes: Float64Array;
  /** Mean pitch of those counted in each class. */
  readonly #means: Float64Array;
  readonly #decay: number;
  readonly #hopSec: number;
  readonly #middle: number;
  readonly #half: number;
  #total = 0;
  #heardSec = 0;
  #median = Number.NaN;

  constructor(target: { readonly low: number; readonly high: number }, hopSec: number) {
    this.#classes = new Float64Array(Math.ceil((Math.log2(HIGHEST_HZ) + 0.1 - this.#low) / CLASS));
    this.#means = new Float64Array(this.#classes.length);
    this.#decay = 2 ** (-hopSec / HALF_LIFE_SEC);
    this.#hopSec = hopSec;
    this.#middle = Math.log2(target.low * target.high) / 2;
    this.#half = Math.log2(target.high / target.low) / 2;
  }

  /** Records a frame of voice. */
  hear(hz: number): void {
    const octave = Math.log2(hz);
    const classes = this.#classes;
    for (let i = 0; i < classes.length; i++) classes[i] = (classes[i] as number) * this.#decay;
    const at = Math.max(0, Math.min(classes.length - 1, Math.floor((octave - this.#low) / CLASS)));
    const count = (classes[at] as number) + 1;
    classes[at] = count;
    this.#means[at] = (this.#means[at] as number) + (octave - (this.#means[at] as number)) / count;
    this.#total = this.#total * this.#decay + 1;
    this.#heardSec += this.#hopSec;
    const median = this.#medianNow();
    const pace = this.#hopSec / Math.min(FOLLOW_SEC, Math.max(this.#hopSec, FOLLOW_SHARE * this.#heardSec));
    this.#median = Number.isNaN(this.#median) ? octave : this.#median + pace * (median - this.#median);
  }

  /** Returns the factor on a pitch. */
  ratio(hz: number): number {
    if (Number.isNaN(this.#median)) return 1;
    const octave = Math.log2(hz);
    const away = Math.min(1, this.#heardSec / KNOWN_SEC) * (octave - this.#median);
    const beyond = Math.abs(away) - this.#half;
    const knee = KNEE_SEMITONES / 12;
    const kept = beyond <= 0 ? away : Math.sign(away) * (this.#half + knee * Math.tanh(beyond / knee));
    return Math.min(MAX_RATIO, Math.max(1 / MAX_RATIO, 2 ** (this.#middle + kept - octave)));
  }

  #medianNow(): number {
    let sum = 0;
    let at = 0;
    for (; at < this.#classes.length - 1; at++) {
      sum += this.#classes[at] as number;
      if (sum >= this.#total / 2) break;
    }
    return this.#means[at] as number;
  }
}
