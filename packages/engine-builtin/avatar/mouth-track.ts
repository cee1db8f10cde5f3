import { BILABIALS, type Phone } from '@semblance/speech/sounds';
import { GLIDE_AT, GLIDES, VISEMES, type Viseme } from '../mouth/visemes.ts';

/** Holds what a speaking mouth does at a moment. */
export interface MouthCommand {
  /** Distance between the lips in the middle, IOD. */
  readonly open: number;
  readonly spread: number;
  readonly round: number;
  /** Lower lip under the upper teeth, as in f and v. */
  readonly tuck: number;
  /** Lips pressed together, as in p, b and m. */
  readonly closed: boolean;
  /** How much the mouth is at rest, as in the still: 1 in silence. What the others say is of the rest of it. */
  readonly rest: number;
}

/** How fast a sound's pull fades outside of it, seconds: lips move at most about 20 cm/s. */
const FADE_SEC = 0.05;
const REACH_SEC = 0.17;
/** Lips come together and part in this time. */
const APPROACH_SEC = 0.055;
/** Silence that is shorter is a stop's closure or a breath within a phrase: the mouth stays ready. */
const SHORT_SILENCE_SEC = 0.12;

interface Segment {
  readonly viseme: Viseme | undefined;
  readonly start: number;
  readonly end: number;
  readonly hold: number;
}

/**
 * The way of a mouth through a row of sounds. Each sound pulls towards its own shape, most within its own time and less
 * the farther away (Cohen and Massaro 1993); lips that have to touch do so whatever their neighbours want.
 */
export class MouthTrack {
  readonly #segments: readonly Segment[];
  readonly #closures: readonly Phone[];
  #first = 0;
  #firstClosure = 0;

  /** @param phones in order, without gaps */
  constructor(phones: readonly Phone[]) {
    this.#segments = phones.flatMap(segmentsOf);
    this.#closures = phones.filter(({ sound }) => sound !== undefined && BILABIALS.has(sound));
  }

  /**
   * @param seconds never less than before
   * @param span length of the frame around it: lips that touch within it are shown touching
   */
  at(seconds: number, span: number): MouthCommand {
    const sums = { open: 0, tuck: 0, forOpen: 0, spread: 0, round: 0, forShape: 0, rest: 0 };
    const segments = this.#segments;
    while (this.#first < segments.length && (segments[this.#first] as Segment).end < seconds - REACH_SEC)
      this.#first++;
    for (let i = this.#first; i < segments.length; i++) {
      const { viseme, start, end, hold } = segments[i] as Segment;
      if (start > seconds + REACH_SEC) break;
      const inner = (end - start) / 4;
      const far = Math.max(0, start + inner - seconds, seconds - end + inner);
      const pull = hold * Math.exp(-((far / FADE_SEC) ** 2));
      if (!viseme) {
        sums.rest += pull;
        continue;
      }
      const forOpen = pull * viseme.holdOpen;
      const forShape = pull * viseme.holdShape;
      sums.forOpen += forOpen;
      sums.open += forOpen * viseme.open;
      sums.tuck += forOpen * viseme.tuck;
      sums.forShape += forShape;
      sums.spread += forShape * viseme.spread;
      sums.round += forShape * viseme.round;
    }
    const { forOpen, forShape, rest } = sums;
    if (forOpen < 1e-6) return { open: 0, spread: 0, round: 0, tuck: 0, closed: false, rest: 1 };
    const apart = this.#apart(seconds, span / 2);
    const parted = smooth(apart / APPROACH_SEC);
    return {
      open: (sums.open / forOpen) * parted,
      spread: sums.spread / forShape,
      round: sums.round / forShape,
      tuck: sums.tuck / forOpen,
      closed: apart === 0,
      // A mouth that is at rest with its teeth showing closes for p, b and m as well.
      rest: (rest / (rest + forOpen)) * parted,
    };
  }

  /** Time to the nearest closure of the lips. */
  #apart(seconds: number, half: number): number {
    const closures = this.#closures;
    while (
      this.#firstClosure < closures.length &&
      (closures[this.#firstClosure] as Phone).end + half < seconds - REACH_SEC
    ) {
      this.#firstClosure++;
    }
    let least = Infinity;
    for (let i = this.#firstClosure; i < closures.length; i++) {
      const { start, end } = closures[i] as Phone;
      if (start > seconds + REACH_SEC) break;
      least = Math.min(least, Math.max(0, start - seconds - half, seconds - half - end));
    }
    return least;
  }
}

function segmentsOf({ sound, start, end }: Phone): Segment[] {
  if (sound === undefined) {
    // In a long silence the mouth goes to rest and comes back before the next sound is heard.
    const hold = end - start < SHORT_SILENCE_SEC ? 0.15 : 0.8;
    return [{ viseme: undefined, start, end, hold }];
  }
  const glide = GLIDES[sound];
  if (glide === undefined) return [{ viseme: VISEMES[sound], start, end, hold: 1 }];
  const turn = start + GLIDE_AT * (end - start);
  return [
    { viseme: VISEMES[sound], start, end: turn, hold: 1 },
    { viseme: VISEMES[glide], start: turn, end, hold: 0.8 },
  ];
}

function smooth(x: number): number {
  const t = Math.min(1, Math.max(0, x));
  return t * t * (3 - 2 * t);
}
