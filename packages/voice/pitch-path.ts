/** Costs, in units of clarity and for steps of 10 ms where a step costs something. */
const UNVOICED_CLARITY = 0.5;
/** For each octave that a candidate is lower: of a period and twice that, equally clear, the shorter is meant. */
const OCTAVE = 0.06;
/** For a leap of an octave between two steps, and for a beginning or an end of voice. */
const LEAP = 0.5;
const ONSET = 0.2;
/** For each octave away from the speaker's usual pitch. */
const UNUSUAL = 0.04;
/** Sound quieter than this share of the speech heard of late (as power) counts as silence. */
const SILENCE = 10 ** (-40 / 10);
/** How fast the loudness that was heard is forgotten, seconds to a tenth of its power. */
const FORGET_SEC = 6;
/** How long a usual pitch is remembered, seconds of voice. */
const USUAL_SEC = 4;

/**
 * Chooses among the candidates of each frame by what they cost along the way that leads to them: Boersma's path finder
 * ("Accurate short-term analysis of the fundamental frequency", IFA Proceedings 17, 1993), without looking ahead. A
 * clearer candidate an octave away must stay clearer for a few frames before it is believed.
 */
export class PitchPath {
  readonly #places: number;
  readonly #scale: number;
  readonly #forget: number;
  readonly #usualPace: number;
  /** Of the last frame; place 0 is "no voice", whose octave is not used. */
  #octaves: Float64Array;
  #scores: Float64Array;
  #nextOctaves: Float64Array;
  #nextScores: Float64Array;
  #count = 0;
  #loudest = 0;
  #usual = Number.NaN;

  constructor(hopSec: number, candidates: number) {
    this.#places = candidates + 1;
    this.#scale = 0.01 / hopSec;
    this.#forget = 10 ** (-hopSec / FORGET_SEC);
    this.#usualPace = hopSec / USUAL_SEC;
    this.#octaves = new Float64Array(this.#places);
    this.#scores = new Float64Array(this.#places);
    this.#nextOctaves = new Float64Array(this.#places);
    this.#nextScores = new Float64Array(this.#places);
  }

  /** @param power of the frame, mean square @returns the candidate chosen, -1 for no voice */
  step(hz: Float64Array, clarity: Float64Array, count: number, power: number): number {
    this.#loudest = Math.max(power, this.#loudest * this.#forget);
    const loud = this.#loudest > 0 ? power / this.#loudest : 0;
    // As loud as silence, no voice is sure; well above it, clarity alone decides.
    const quiet = Math.max(0, 1 - loud / SILENCE);
    this.#nextOctaves[0] = 0;
    this.#nextScores[0] = UNVOICED_CLARITY + quiet + this.#best(0, false);
    let chosen = -1;
    let top = this.#nextScores[0];
    for (let i = 0; i < count; i++) {
      const octave = Math.log2(hz[i] as number);
      const unusual = Number.isNaN(this.#usual) ? 0 : UNUSUAL * Math.abs(octave - this.#usual);
      const own = (clarity[i] as number) + OCTAVE * (octave - 7) - unusual;
      const score = own + this.#best(octave, true);
      this.#nextOctaves[i + 1] = octave;
      this.#nextScores[i + 1] = score;
      if (score > top) {
        top = score;
        chosen = i;
      }
    }
    for (let i = 0; i <= count; i++) this.#nextScores[i] = (this.#nextScores[i] as number) - top;
    [this.#octaves, this.#nextOctaves] = [this.#nextOctaves, this.#octaves];
    [this.#scores, this.#nextScores] = [this.#nextScores, this.#scores];
    this.#count = count + 1;
    if (chosen >= 0) this.#remember(this.#octaves[chosen + 1] as number);
    return chosen;
  }

  /** The best way here from any candidate of the frame before. */
  #best(octave: number, voiced: boolean): number {
    if (this.#count === 0) return 0;
    let best = (this.#scores[0] as number) - (voiced ? ONSET * this.#scale : 0);
    for (let i = 1; i < this.#count; i++) {
      const cost = voiced ? LEAP * Math.abs(octave - (this.#octaves[i] as number)) : ONSET;
      best = Math.max(best, (this.#scores[i] as number) - cost * this.#scale);
    }
    return best;
  }

  #remember(octave: number): void {
    if (Number.isNaN(this.#usual)) this.#usual = octave;
    this.#usual += this.#usualPace * Math.max(-0.5, Math.min(0.5, octave - this.#usual)) * 2;
  }
}
