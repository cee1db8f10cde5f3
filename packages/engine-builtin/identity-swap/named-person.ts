import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { centroid, cropsOf, type Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { BODY, type Person, type PersonFinder } from '@semblance/vision/person';
import { LOOK_AGAIN, ONE_OF_SHARE, type OnePerson, smallestOf } from '../people/one-person.ts';
import { movedPerson, scaledPerson } from './follow.ts';
import { findPerson, type Looked, type PersonSearch } from './search.ts';

/** Reach of the searched part from the face, to the sides and above, in face widths. */
const BESIDE = 3;
const ABOVE = 1.5;
/** Largest distance of a person's nose from the middle of its face, in face widths. */
const NEAR = 0.8;

/** Finds the person whose face is that of a mapping's one person, and tells whether somebody else took the place. */
export class NamedPerson implements PersonSearch {
  readonly #finder: PersonFinder;
  readonly #faces: FaceFinder;
  readonly #person: OnePerson;
  readonly #checkpoint: () => void;
  /** Frames since it was last looked at whether the followed person is still the one. */
  #unlooked = 0;

  constructor(
    tools: { readonly people: PersonFinder; readonly faces: FaceFinder; readonly checkpoint: () => void },
    person: OnePerson,
  ) {
    this.#finder = tools.people;
    this.#faces = tools.faces;
    this.#checkpoint = tools.checkpoint;
    this.#person = person;
  }

  /** Searches for the person below its face, no nearer to another face than to its own. */
  async find(small: Picture, { whole, step }: Looked): Promise<Person | undefined> {
    this.#unlooked = 0;
    const picture = whole();
    const faces = await this.#facesIn(picture);
    const face = await this.#person.among(faces, cropsOf(picture));
    if (!face) return undefined;
    const at = middleOf(face, step);
    const others = faces.filter((one) => one !== face).map((one) => middleOf(one, step));
    const width = face.width / step;
    const { part, x, y } = partBelow(small, at, width, others);
    const found = await findPerson(this.#finder, part, this.#checkpoint);
    const person = found && movedPerson(found, x, y);
    return person && distance(noseOf(person), at) < NEAR * width ? person : undefined;
  }

  /** Looks at every {@link LOOK_AGAIN}th frame only. */
  async isAnother(person: Person, { whole, step }: Looked): Promise<boolean> {
    if (++this.#unlooked < LOOK_AGAIN) return false;
    this.#unlooked = 0;
    const picture = whole();
    const nose = noseOf(scaledPerson(person, step));
    const [nearest] = (await this.#facesIn(picture))
      .map((face) => ({ face, far: distance(middleOf(face, 1), nose) / face.width }))
      .sort((a, b) => a.far - b.far);
    if (!nearest || nearest.far > NEAR) return false;
    return this.#person.isAnother(nearest.face, cropsOf(picture));
  }

  async #facesIn(picture: Picture): Promise<readonly Face[]> {
    const options = { share: ONE_OF_SHARE };
    return (await this.#faces.lookUpright(picture, smallestOf(picture), this.#checkpoint, options)).faces;
  }
}

type Place = { readonly x: number; readonly y: number };

const distance = (a: Place, b: Place): number => Math.hypot(a.x - b.x, a.y - b.y);
const noseOf = (person: Person): Place => person.points[BODY.nose] as Place;

function middleOf({ points }: Face, step: number): Place {
  const { x, y } = centroid(points, FACE_OVAL);
  return { x: x / step, y: y / step };
}

/** Returns the part of a picture below a face, as wide as a body, that ends half-way to the faces beside it. */
function partBelow(picture: Picture, at: Place, faceWidth: number, others: readonly Place[]) {
  let [left, right] = [at.x - BESIDE * faceWidth, at.x + BESIDE * faceWidth];
  for (const other of others) {
    const middle = (at.x + other.x) / 2;
    // A face above another one leaves no side to end at.
    if (Math.abs(other.x - at.x) < faceWidth) continue;
    if (other.x < at.x) left = Math.max(left, middle);
    else right = Math.min(right, middle);
  }
  const x = Math.max(0, Math.floor(left));
  const y = Math.max(0, Math.floor(at.y - ABOVE * faceWidth));
  const width = Math.min(picture.width, Math.ceil(right)) - x;
  const height = picture.height - y;
  const { channels } = picture;
  const data = new Uint8Array(width * height * channels);
  for (let row = 0; row < height; row++) {
    const from = ((y + row) * picture.width + x) * channels;
    data.set(picture.data.subarray(from, from + width * channels), row * width * channels);
  }
  return { part: { width, height, channels, data }, x, y };
}
