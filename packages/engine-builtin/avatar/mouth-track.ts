import { BILABIALS, type Phone } from '@semblance/speech/sounds';
import { GLIDE_AT, GLIDES, VISEMES, type Viseme } from '../mouth/visemes.ts';

/** State of a speaking mouth at a moment. */
export interface MouthCommand {
  /** Distance between the lips in the middle, in IOD. */
  readonly open: number;
  readonly spread: number;
  readonly round: number;
  /** Lower lip under the upper teeth, as in f and v. */
  readonly tuck: number;
  /** Lips pressed together, as in p, b and m. */
  readonly closed: boolean;
  /** Share of the mouth's rest as in the still; 1 in silence. The other values apply to the remaining share. */
  readonly rest: number;
}

/** Time in which the pull of a sound fades outside it, in seconds; lips move at most about 20 cm/s. */
const FADE_SEC = 0.05;
const REACH_SEC = 0.17;
/** Time in which lips meet and part, in seconds. */
const APPROACH_SEC = 0.055;
/** A shorter silence, in seconds, is the closure of a stop or a breath within a phrase, and the mouth stays ready. */
const SHORT_SILENCE_SEC = 0.12;

interface Segment {
  readonly viseme: Viseme | undefined;
  readonly start: number;
  readonly end: number;
  readonly hold: number;
}

/**
 * The path of a mouth through a series of sounds. Each sound pulls towards its own shape, most strongly within its
 * own time and less with distance (Cohen and Massaro 1993). Lips that must touch do so whatever their neighbours
 * want.
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
      // A mouth whose teeth show at rest also closes for p, b and m.
      rest: (rest / (rest + forOpen)) * parted,
    };
  }

  /** Returns the time to the nearest closure of the lips. */
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
    // In a long silence the mouth goes to rest and returns before the next sound is heard.
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
