import { SUITABLE_SHARE } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { sameness } from '@semblance/vision/face-recogniser';

/**
 * From here on two descriptions are one person's, and below the second figure surely two people's. Measured on 24
 * faces of nine photographs: the same photograph made dark, small, grey, warm, mirrored or soft 0.69 and more; 95 %
 * of pairs of different faces below 0.54.
 */
const SAME = 0.64;
const OTHER = 0.5;
/** How much more one of several faces must be like a person than the rest, to be taken for it below {@link SAME}. */
const LEAD = 0.1;
/** Descriptions kept of one person. */
const MAX_LOOKS = 6;

/** Someone seen in the video. */
export interface Person {
  /** Tells whether the new face is put on this one. */
  readonly target: boolean;
  /** Shot in which that was decided. */
  readonly shot: number;
  readonly looks: Float32Array[];
  /** The last time that faces were chosen with this one among them. */
  seen: number;
}

export interface Newcomer {
  readonly face: Face;
  /** States what tells whose face it is; undefined where it is too small or turned to be told. */
  readonly look: Float32Array | undefined;
}

export interface Chosen {
  readonly face: Face;
  readonly person: Person | undefined;
}

/**
 * Holds who is to be swapped. The people chosen when they were first seen stay so, after cuts and when they come
 * back, however small they are then; those left alone beside them stay left alone. Whoever appears in a later shot
 * beside one that is swapped and surely is another person is left alone as well. Everyone else is chosen as in a
 * photograph.
 */
export class People {
  readonly #most: number;
  #people: Person[] = [];
  #times = 0;

  /** @param most people remembered; beyond that the one who was not seen for longest is forgotten */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  /**
   * Chooses among the faces found anew in a frame.
   * @param newcomers the most prominent first
   * @param open those who are being swapped in this shot, and the width of the widest of their faces
   */
  choose(
    newcomers: readonly Newcomer[],
    shot: number,
    open: { readonly people: readonly Person[]; readonly widest: number },
  ): Chosen[] {
    const known = this.#recognise(newcomers, open.people);
    this.#times++;
    for (const person of [...open.people, ...known.values()]) person.seen = this.#times;
    const here = [...open.people, ...known.values()].some((person) => person.target && person.shot < shot);
    const main = newcomers.find((newcomer) => known.get(newcomer)?.target !== false);
    const least = SUITABLE_SHARE * Math.max(open.widest, main?.face.width ?? 0);
    const chosen: Chosen[] = [];
    for (const newcomer of newcomers) {
      const { face, look } = newcomer;
      let person = known.get(newcomer);
      if (person && look) this.learn(person, look);
      if (!person) {
        const other = here && look !== undefined && this.#bestOf(look, true).same < OTHER;
        const target = face.width >= least && !other;
        if (look) person = this.#add({ target, shot, looks: [look], seen: this.#times });
        if (!target) continue;
      }
      if (person?.target !== false) chosen.push({ face, person });
    }
    return chosen;
  }

  /** Remembers another look of a person: from another side, in another light. */
  learn(person: Person, look: Float32Array): void {
    if (person.looks.length < MAX_LOOKS) person.looks.push(look);
  }

  /** Someone who is swapped and could not be told from others before. */
  meet(look: Float32Array, shot: number): Person {
    return this.#add({ target: true, shot, looks: [look], seen: this.#times });
  }

  #add(person: Person): Person {
    if (this.#people.length >= this.#most) {
      const first = this.#people.reduce((a, b) => (b.seen < a.seen ? b : a));
      this.#people = this.#people.filter((other) => other !== first);
    }
    this.#people.push(person);
    return person;
  }

  #recognise(newcomers: readonly Newcomer[], open: readonly Person[]): Map<Newcomer, Person> {
    const known = new Map<Newcomer, Person>();
    const guesses: { newcomer: Newcomer; person: Person; same: number }[] = [];
    for (const newcomer of newcomers) {
      if (!newcomer.look) continue;
      const target = this.#bestOf(newcomer.look, true);
      const bystander = this.#bestOf(newcomer.look, false);
      const { person, same } = bystander.same > target.same ? bystander : target;
      // Nobody is in a frame twice.
      const taken = person && (open.includes(person) || [...known.values()].includes(person));
      if (!person || taken) continue;
      if (same >= SAME) known.set(newcomer, person);
      else if (person.target) guesses.push({ newcomer, person, same });
    }
    const found = [...open, ...known.values()].some((person) => person.target);
    const [first, second] = guesses.sort((a, b) => b.same - a.same);
    if (!found && first && second && first.same >= OTHER && first.same - second.same >= LEAD) {
      known.set(first.newcomer, first.person);
    }
    return known;
  }

  #bestOf(look: Float32Array, target: boolean): { person: Person | undefined; same: number } {
    let best: { person: Person | undefined; same: number } = { person: undefined, same: -1 };
    for (const person of this.#people) {
      if (person.target !== target) continue;
      for (const known of person.looks) {
        const same = sameness(known, look);
        if (same > best.same) best = { person, same };
      }
    }
    return best;
  }
}
