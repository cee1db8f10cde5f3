import type { FaceMapping } from '@semblance/engine-api/people';
import type { CropSource, Face } from '@semblance/vision/face-mesh';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { MappedPeople } from '../video-swap/mapped-people.ts';
import type { Person } from '../video-swap/people.ts';

/** Faces narrower than this share of the most prominent one are not looked at. */
export const ONE_OF_SHARE = 0.2;
/** Frames after which it is looked at again whether a followed face is still that of the person. */
export const LOOK_AGAIN = 5;

/** Returns the smallest width of a face, in pixels, at which a person is looked for in a picture. */
export function smallestOf({ width, height }: { readonly width: number; readonly height: number }): number {
  return Math.max(30, 0.08 * Math.min(width, height));
}

/** Tells the one person that a mapping names from everybody else in it. */
export class OnePerson {
  readonly #people: MappedPeople;
  readonly #recogniser: () => Promise<FaceRecogniser>;
  readonly #checkpoint: () => void;
  #person: Person | undefined;

  constructor(mapping: FaceMapping, recogniser: () => Promise<FaceRecogniser>, checkpoint: () => void) {
    this.#people = new MappedPeople(mapping, () => 0);
    this.#recogniser = recogniser;
    this.#checkpoint = checkpoint;
  }

  /** Returns the face of the person among all faces of a frame; undefined: it is not surely there. */
  async among(faces: readonly Face[], crops: CropSource): Promise<Face | undefined> {
    const newcomers = [];
    for (const face of faces) newcomers.push({ face, look: await this.#describe(face, crops) });
    const [chosen] = this.#people.choose(newcomers, 0, { people: [], widest: 0 });
    if (!chosen) return undefined;
    this.#person = chosen.person;
    return chosen.face;
  }

  /** Returns whether a face that was followed is surely that of somebody else. */
  async isAnother(face: Face, crops: CropSource): Promise<boolean> {
    const person = this.#person;
    return person !== undefined && this.#people.isAnother(person, await this.#describe(face, crops));
  }

  async #describe(face: Face, crops: CropSource): Promise<Float32Array> {
    this.#checkpoint();
    return (await this.#recogniser()).describe(crops, face);
  }
}
