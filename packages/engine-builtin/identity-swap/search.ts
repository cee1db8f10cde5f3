import type { Picture } from '@semblance/engine-api/picture';
import type { Size } from '@semblance/media/types';
import type { Person, PersonFinder } from '@semblance/vision/person';
import { movedPerson } from './follow.ts';
import { isOther, type Looks, learned, looksOf } from './looks.ts';

/**
 * Margins added to a picture, as shares of its longer side: a detector of whole people misses those that fill a
 * picture.
 */
const MARGINS = [0, 0.3, 0.6, 1] as const;
/** Longer side, in pixels, of the part of a video in which a person is searched for. */
const SEARCH_SIDE = 640;
/** Score from which no further search is needed. */
const SURE = 0.97;
/** Number of fits around the found person; the second one sees the whole person. */
const LOOKS = 3;
/** Longest interval between two searches, in frames; a search costs as much as several fits. */
const MAX_WAIT = 6;
/** Frames for which somebody else is not taken for the person. */
const PATIENCE = 25;

/** Finds the person in a still picture with the best score. */
export async function findPerson(
  finder: PersonFinder,
  picture: Picture,
  checkpoint: () => void,
): Promise<Person | undefined> {
  let best: Person | undefined;
  for (const [k, margin] of MARGINS.entries()) {
    // The two smaller margins are always compared; the others are only for a person that was not found yet.
    if (best && (k > 1 || best.score > SURE)) break;
    const { wide, by } = widened(picture, margin);
    let person = await finder.find(wide);
    for (let look = 0; person; look++) {
      checkpoint();
      if (!best || person.score > best.score) best = movedPerson(person, -by, -by);
      if (look === LOOKS) break;
      person = await finder.find(wide, person);
    }
    checkpoint();
  }
  return best;
}

/** Returns the interval between the pixels of a frame that are searched for a person. */
export function searchStep({ width, height }: Size): number {
  return Math.max(1, Math.min(4, 2 * Math.round(Math.max(width, height) / SEARCH_SIDE / 2)));
}

/** A frame in pixels, at full size when it is asked for. */
export interface Looked {
  readonly whole: () => Picture;
  /** Interval of the pixels in which people are searched. */
  readonly step: number;
}

/** Tells one person from others. */
export interface PersonSearch {
  /**
   * Searches a frame for the person.
   * @param small the frame with every `step`-th pixel
   * @returns the person in pixels of `small`; undefined: it is not surely there
   */
  find(small: Picture, looked: Looked): Promise<Person | undefined>;
  /** Returns whether the person that was followed into a frame, in pixels of `small`, is surely somebody else. */
  isAnother(person: Person, looked: Looked): Promise<boolean>;
}

/** Follows the person of a video from frame to frame: the most prominent one, or one who is told from others. */
export class PersonTracker {
  readonly #finder: PersonFinder;
  readonly #named: PersonSearch | undefined;
  #last: Person | undefined;
  /** The person when it was last seen, and its looks. */
  #own: Person | undefined;
  #looks: Looks | undefined;
  /** Frames since then in which somebody else was seen. */
  #strange = 0;
  #wait = 0;
  #untilSearch = 0;

  constructor(finder: PersonFinder, named?: PersonSearch) {
    this.#finder = finder;
    this.#named = named;
  }

  /**
   * Returns the person in the next frame; undefined when it is not visible.
   * @param looked the frame of which `picture` has every `step`-th pixel
   */
  async track(
    picture: Picture,
    looked: Looked = { whole: () => picture, step: 1 },
  ): Promise<Person | undefined> {
    const found = await this.#follow(picture, looked);
    if (!found) return undefined;
    const now = looksOf(picture, found);
    if (this.#looks && isOther(this.#looks, now) && this.#strange < PATIENCE) {
      // Somebody stands in front. The person is awaited where it was.
      this.#strange++;
      this.#last = this.#own;
      return undefined;
    }
    this.#looks = this.#looks && this.#strange < PATIENCE ? learned(this.#looks, now) : now;
    this.#strange = 0;
    this.#own = found;
    return found;
  }

  async #follow(picture: Picture, looked: Looked): Promise<Person | undefined> {
    if (this.#last) {
      const person = await this.#finder.find(picture, this.#last);
      const another = person && (await this.#named?.isAnother(person, looked));
      if (another) this.reset();
      else if (person) return this.#keep(person);
    } else if (this.#untilSearch > 0) {
      this.#untilSearch--;
      return undefined;
    }
    const found = this.#named ? await this.#named.find(picture, looked) : await this.#search(picture);
    if (found) return this.#keep(found);
    this.#last = undefined;
    this.#wait = Math.min(MAX_WAIT, Math.max(1, this.#wait * 2));
    this.#untilSearch = this.#wait - 1;
    return undefined;
  }

  /** Forgets the person, as after a cut. */
  reset(): void {
    this.#own = undefined;
    this.#looks = undefined;
    this.#strange = 0;
    this.#last = undefined;
    this.#wait = 0;
    this.#untilSearch = 0;
  }

  async #search(picture: Picture): Promise<Person | undefined> {
    const found = this.#last ? undefined : await this.#finder.find(picture);
    if (found) return found;
    const { wide, by } = widened(picture, MARGINS[1]);
    const person = await this.#finder.find(wide);
    return person && movedPerson(person, -by, -by);
  }

  #keep(person: Person): Person {
    this.#last = person;
    this.#wait = 0;
    return person;
  }
}

/** Returns a picture with a margin of its border colours around it. */
function widened(picture: Picture, margin: number): { wide: Picture; by: number } {
  const { width, height, channels, data } = picture;
  const by = Math.round(margin * Math.max(width, height));
  if (by === 0) return { wide: picture, by };
  const [w, h] = [width + 2 * by, height + 2 * by];
  const out = new Uint8Array(w * h * 3);
  for (let y = 0; y < h; y++) {
    const row = Math.min(height - 1, Math.max(0, y - by)) * width;
    for (let x = 0, o = y * w * 3; x < w; x++, o += 3) {
      const i = (row + Math.min(width - 1, Math.max(0, x - by))) * channels;
      out[o] = data[i] as number;
      out[o + 1] = data[i + 1] as number;
      out[o + 2] = data[i + 2] as number;
    }
  }
  return { wide: { width: w, height: h, channels: 3, data: out }, by };
}
