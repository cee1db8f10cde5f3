import { type FaceMapping, lookOfText, type MappedPerson } from '@semblance/engine-api/people';
import { SUITABLE_SHARE } from '@semblance/vision/face-finder';
import { sameness } from '@semblance/vision/face-recogniser';
import { type Chosen, type Newcomer, People, type Person } from './people.ts';

/**
 * Sameness from which a face is surely one of the known people; and from which it is, if it leads by the third value
 * over all others. The people of a video are known before, so less than a tracker's memory asks for is enough.
 */
const SAME = 0.58;
const LIKELY = 0.42;
const LEAD = 0.08;

interface KnownPerson extends Person {
  readonly mapped: MappedPerson;
}

/**
 * Decides by a mapping whose face is replaced, and by whose. Everybody in it was seen before, so each face is compared
 * with all of them, however small or turned it is.
 */
export class MappedPeople extends People {
  readonly #known: readonly KnownPerson[];
  readonly #others: boolean;
  readonly #strangers: Person[] = [];

  /** @param sourceOf place of the source of an input, by its role */
  constructor({ people, others }: FaceMapping, sourceOf: (role: string) => number) {
    super({ everybody: true });
    this.#others = others !== undefined;
    this.#known = people.map((mapped) => {
      const input = mapped.input ?? others;
      return {
        mapped,
        id: mapped.id,
        target: input !== undefined,
        source: input === undefined ? undefined : sourceOf(input),
        shot: 0,
        looks: [lookOfText(mapped.look)],
        seen: 0,
      };
    });
  }

  override choose(
    newcomers: readonly Newcomer[],
    shot: number,
    open: { readonly people: readonly Person[]; readonly widest: number },
  ): Chosen[] {
    const people = this.#recogniseAll(newcomers, open.people);
    const widest = Math.max(open.widest, ...newcomers.map(({ face }) => face.width));
    return newcomers.flatMap((newcomer) => {
      const { face, look } = newcomer;
      const known = people.get(newcomer);
      if (known && look && sameness(known.looks[0] as Float32Array, look) >= SAME) this.learn(known, look);
      const person = known ?? this.#stranger(newcomer, shot, open.people);
      // Who has no entry is treated as in a render without a mapping: bystanders stay as they are.
      const suitable = known?.mapped.input !== undefined || face.width >= SUITABLE_SHARE * widest;
      return person.target && suitable ? [{ face, person }] : [];
    });
  }

  override isAnother(person: Person, look: Float32Array): boolean {
    const others = this.#known.filter((other) => other !== person).map((other) => likeness(other, look));
    const most = Math.max(-1, ...others);
    return most >= SAME && most - likeness(person, look) >= LEAD;
  }

  /** Gives each face the person that it is most like; a person is in a frame only once. */
  #recogniseAll(newcomers: readonly Newcomer[], open: readonly Person[]) {
    const found = new Map<Newcomer, KnownPerson>();
    const free = this.#known.filter((person) => !open.includes(person));
    const pairs = newcomers.flatMap((newcomer) => {
      const all = free
        .map((person) => ({ newcomer, person, same: likeness(person, newcomer.look) }))
        .sort((a, b) => b.same - a.same);
      return all.map((pair) => {
        const rival = all.find(({ person }) => person !== pair.person)?.same ?? 0;
        return { ...pair, sure: pair.same >= SAME || (pair.same >= LIKELY && pair.same - rival >= LEAD) };
      });
    });
    for (const { newcomer, person, sure } of pairs.sort((a, b) => b.same - a.same)) {
      if (sure && !found.has(newcomer) && ![...found.values()].includes(person)) found.set(newcomer, person);
    }
    return found;
  }

  /** Returns somebody whom the mapping does not know. */
  #stranger({ look }: Newcomer, shot: number, open: readonly Person[]): Person {
    // Who gets nothing need not be known again.
    if (!this.#others) return { target: false, source: undefined, shot, looks: [], seen: shot };
    const before = this.#strangers.find((person) => !open.includes(person) && likeness(person, look) >= SAME);
    if (before) return before;
    const person = {
      target: true,
      source: 0,
      shot,
      looks: look ? [look] : [],
      seen: shot,
    };
    this.#strangers.push(person);
    return person;
  }
}

function likeness({ looks }: Person, look: Float32Array | undefined): number {
  return look ? Math.max(-1, ...looks.map((known) => sameness(known, look))) : -1;
}
