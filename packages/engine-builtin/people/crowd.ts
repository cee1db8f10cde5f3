import type { Box } from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { sameness } from '@semblance/vision/face-recogniser';
import { boxOf } from './box.ts';
import { jpegOf } from './crop.ts';

/**
 * Sameness from which two sightings are of one person. It lies between the bounds of a tracker's memory, which knows
 * more: here each frame is on its own.
 */
const SAME = 0.6;

/** A face in one frame, and how well the frame shows it. */
export interface Sighting {
  readonly face: Face;
  readonly look: Float32Array;
  /** Whether the person can be told from others here. */
  readonly told: boolean;
  readonly clearness: number;
}

export interface SeenPerson {
  frames: number;
  /** Whether a frame told the person from others. */
  told: boolean;
  /** Mean of the descriptions. */
  look: Float32Array;
  clearness: number;
  best: { readonly face: Face; readonly box: Box; readonly ptsUs: number; readonly crop: string };
  /** Numbers of the frames with the person. */
  readonly seen: Set<number>;
  looks: number;
}

/** Tells the people of sampled frames apart. */
export class Crowd {
  #people: SeenPerson[] = [];
  #frames = 0;

  /** Adds what one frame shows; a person is in it only once. */
  async add(sightings: readonly Sighting[], frame: { readonly picture: Picture; readonly ptsUs: number }) {
    const number = this.#frames++;
    const pairs = sightings
      .flatMap((sighting) =>
        this.#people.map((person) => ({ sighting, person, same: sameness(sighting.look, person.look) })),
      )
      .filter(({ same }) => same >= SAME)
      .sort((a, b) => b.same - a.same);
    const known = new Map<Sighting, SeenPerson>();
    for (const { sighting, person } of pairs)
      if (!known.has(sighting) && ![...known.values()].includes(person)) known.set(sighting, person);
    for (const sighting of sightings) {
      const person = known.get(sighting);
      const better = sighting.clearness > (person?.clearness ?? 0);
      const best = better ? await bestOf(sighting, frame) : undefined;
      if (!person) {
        if (best) this.#people.push(meet(sighting, best, number));
        continue;
      }
      person.seen.add(number);
      person.frames = person.seen.size;
      if (best) Object.assign(person, { best, clearness: sighting.clearness });
      if (sighting.told || !person.told) learn(person, sighting);
      person.told ||= sighting.told;
    }
  }

  /**
   * The people, those who are seen most and clearest first. Two that never share a frame and look alike by all that was
   * seen of them are one. A face that no frame tells from others, and that one frame shows, is none.
   */
  get people(): readonly SeenPerson[] {
    const merged: SeenPerson[] = [];
    for (const person of [...this.#people].sort((a, b) => weight(b) - weight(a))) {
      const same = merged.find(
        (other) =>
          sameness(other.look, person.look) >= SAME &&
          [...person.seen].every((frame) => !other.seen.has(frame)),
      );
      if (!same) {
        merged.push(person);
        continue;
      }
      for (const frame of person.seen) same.seen.add(frame);
      same.frames = same.seen.size;
    }
    return merged.filter(({ told, frames }) => told || frames > 1).sort((a, b) => weight(b) - weight(a));
  }
}

const weight = ({ frames, clearness }: SeenPerson): number => frames * clearness;

async function bestOf(
  { face }: Sighting,
  { picture, ptsUs }: { readonly picture: Picture; readonly ptsUs: number },
) {
  return { face, box: boxOf(face, picture), ptsUs, crop: await jpegOf(picture, face) };
}

function meet({ look, told, clearness }: Sighting, best: SeenPerson['best'], frame: number): SeenPerson {
  return { frames: 1, told, look: unit(look), clearness, best, seen: new Set([frame]), looks: 1 };
}

/** Adds a description to the mean; the first clear one replaces all others. */
function learn(person: SeenPerson, { look, told }: Sighting): void {
  const fresh = unit(look);
  const count = told && !person.told ? 0 : person.looks;
  person.look = unit(fresh.map((value, i) => value + count * (person.look[i] as number)));
  person.looks = count + 1;
}

function unit(look: Float32Array): Float32Array {
  const length = Math.hypot(...look) || 1;
  return look.map((value) => value / length);
}
