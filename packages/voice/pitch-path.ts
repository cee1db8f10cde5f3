/** Value of "no voice", in units of clarity. Costs are for steps of 10 ms. */
const UNVOICED_CLARITY = 0.5;
/** Cost per octave of a lower candidate. Of a period and its double with equal clarity, the shorter is right. */
const OCTAVE = 0.06;
/** Cost of an octave leap between two steps, and of a beginning or end of voice. */
const LEAP = 0.5;
const ONSET = 0.2;
/** Cost per octave away from the speaker's usual pitch. */
const UNUSUAL = 0.04;
/** Power relative to recent speech below which sound counts as silence. */
const SILENCE = 10 ** (-40 / 10);
/** Time in which the remembered loudness falls to a tenth of its power, in seconds. */
const FORGET_SEC = 6;
/** Time over which a usual pitch is remembered, in seconds of voice. */
const USUAL_SEC = 4;

/**
 * Chooses among the candidates of each frame by the cost of the path to them: Boersma's path finder ("Accurate
 * short-term analysis of the fundamental frequency", IFA Proceedings 17, 1993), without looking ahead. A clearer
 * candidate an octave away must stay clearer for a few frames.
 */
export class PitchPath {
  readonly #places: number;
  readonly #scale: number;
  readonly #forget: number;
  readonly #usualPace: number;
  /** Candidates of the last frame; index 0 is "no voice", whose octave is unused. */
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

  /** @param power mean square of the frame @returns the chosen candidate, -1 for no voice */
  step(hz: Float64Array, clarity: Float64Array, count: number, power: number): number {
    this.#loudest = Math.max(power, this.#loudest * this.#forget);
    const loud = this.#loudest > 0 ? power / this.#loudest : 0;
    // In silence no voice is certain; well above it, only clarity decides.
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

  /** Returns the score of the best path from any candidate of the frame before. */
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
