import { SUITABLE_SHARE } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { sameness } from '@semblance/vision/face-recogniser';

/**
 * Similarity from which two descriptions belong to one person, and below the second value surely to two. On 24
 * faces of nine photographs, changed copies of the same photograph reach 0.69 or more, and 95 % of pairs of
 * different faces stay below 0.54.
 */
const SAME = 0.64;
const OTHER = 0.5;
/** Lead in similarity over the other faces with which a face below {@link SAME} is recognised as a person. */
const LEAD = 0.1;
/** Largest number of descriptions kept for one person. */
const MAX_LOOKS = 6;

/** A person seen in the video. */
export interface Person {
  /** Id in the mapping of the render; undefined: it has none, or does not know the person. */
  readonly id?: string;
  /** Place of the source that is put on this person; undefined: the only one, or none. */
  readonly source?: number | undefined;
  /** Whether the new face is put on this person. */
  readonly target: boolean;
  /** Shot in which that was decided. */
  readonly shot: number;
  readonly looks: Float32Array[];
  /** Last time at which faces were chosen with this person among them. */
  seen: number;
}

export interface Newcomer {
  readonly face: Face;
  /** Description of the face; undefined where the face is too small or too much turned. */
  readonly look: Float32Array | undefined;
}

export interface Chosen {
  readonly face: Face;
  readonly person: Person | undefined;
}

/**
 * Decides which people are swapped. People chosen when first seen stay chosen, after cuts and when they return,
 * however small they are then. People left alone beside them stay left alone. So is a person who surely differs and
 * appears in a later shot beside a swapped one. All others are chosen as in a photograph.
 */
export class People {
  /** Whether every face counts, also a small or turned one, because all people are known before. */
  readonly everybody: boolean;
  readonly #most: number;
  readonly #single: boolean;
  #people: Person[] = [];
  #times = 0;

  /**
   * @param options `most`: people remembered; beyond that the one not seen for longest is forgotten. `single`: only
   * one person is swapped, the most prominent one of the first frame with a face
   */
  constructor({ most = Number.POSITIVE_INFINITY, single = false, everybody = false } = {}) {
    this.everybody = everybody;
    this.#most = most;
    this.#single = single;
  }

  /**
   * Chooses among the faces newly found in a frame.
   * @param newcomers the most prominent first
   * @param open the swapped people of this shot, and the width of the widest of their faces
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
    const taken = open.widest > 0 || [...known.values()].some((person) => person.target);
    const chosen: Chosen[] = [];
    for (const newcomer of newcomers) {
      const { face, look } = newcomer;
      let person = known.get(newcomer);
      if (person && look) this.learn(person, look);
      if (!person) {
        const other = here && look !== undefined && this.#bestOf(look, true).same < OTHER;
        const target = this.#single
          ? newcomer === main && !taken && !this.#isStranger(look)
          : face.width >= least && !other;
        if (look) person = this.#add({ target, shot, looks: [look], seen: this.#times });
        if (!target) continue;
      }
      if (person?.target !== false) chosen.push({ face, person });
    }
    return chosen;
  }

  /** Adds another description of a person: from another side, in another light. */
  learn(person: Person, look: Float32Array): void {
    if (person.looks.length < MAX_LOOKS) person.looks.push(look);
  }

  /** Returns whether a description is surely of another known person; what is told only where all are known. */
  isAnother(_person: Person, _look: Float32Array): boolean {
    return false;
  }

  /** Registers a swapped person who could not be recognised before. */
  meet(look: Float32Array, shot: number): Person {
    return this.#add({ target: true, shot, looks: [look], seen: this.#times });
  }

  /** Returns whether somebody is swapped already, and surely another person. */
  #isStranger(look: Float32Array | undefined): boolean {
    return (
      look !== undefined && this.#people.some(({ target }) => target) && this.#bestOf(look, true).same < OTHER
    );
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
      // A person can be in a frame only once.
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
