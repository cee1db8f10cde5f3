import { RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Person, PersonFinder } from '@semblance/vision/person';
import { headRadius, skeletonOf } from './skeleton.ts';

/** Least radius of a head, in pixels, whose face would be found, and least width of the face. */
const LARGE = 24;
const LEAST_FACE = 26;
/** Confidence of the nose from which a body looks at the camera. */
const NOSE_SEEN = 0.8;
/** Unrest of the points (see {@link PersonFinder.unrest}) from which a body is none of a human (measured). */
const RESTLESS = 0.033;
/** Interval between the frames that are looked at, and number of looks that decide. */
const INTERVAL = 12;
const LOOKS = 9;

interface Tools {
  readonly people: PersonFinder;
  readonly faces: Pick<FaceFinder, 'findUpright'>;
  readonly checkpoint: () => void;
}

/**
 * Returns whether a body that was found in a picture may be a human's: a human face is seen, or none would be, because
 * the body is small or looks away, or its points stay where they are, as those of a helmeted human do. The networks
 * for people find bodies in dogs and horses, too, with high scores.
 */
export async function mayBeHuman(
  picture: Picture,
  person: Person,
  { people, faces, checkpoint }: Tools,
): Promise<boolean> {
  const skeleton = skeletonOf(person.points);
  const looksHere = skeleton.facing > 0 && skeleton.noseSeen >= NOSE_SEEN;
  if (!looksHere || headRadius(skeleton) < LARGE) return true;
  if ((await faces.findUpright(picture, LEAST_FACE, checkpoint)).length > 0) return true;
  const unrest = await people.unrest(picture, person);
  checkpoint();
  return unrest < RESTLESS;
}

/** Refuses a video in which what was found is no human in most of the frames that are looked at. */
export class HumanCheck {
  readonly #tools: Tools;
  #looks = 0;
  #humans = 0;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  /** Looks at some of the first frames. @throws RenderError `face_not_detected` */
  async look(index: number, picture: () => Picture, person: Person): Promise<void> {
    if (index % INTERVAL > 0 || this.#looks === LOOKS) return;
    this.#looks++;
    if (await mayBeHuman(picture(), person, this.#tools)) this.#humans++;
    if (this.#looks === LOOKS) this.decide();
  }

  /** Decides by what was looked at, as at the end of a short video. @throws RenderError `face_not_detected` */
  decide(): void {
    if (2 * this.#humans >= this.#looks) return;
    throw new RenderError(
      'face_not_detected',
      'What was found in the reference video (video_key) is no person: it has no human face, and no human body fits it.',
    );
  }
}
