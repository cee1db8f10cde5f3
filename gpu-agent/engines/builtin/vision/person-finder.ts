import type { InferenceSession } from 'onnxruntime-node';
import { openSession } from '../../models/session.ts';
import type { Person, PersonFinder } from './person.ts';
import { PersonDetector } from './person-detector.ts';
import { PersonFitter } from './person-landmarks.ts';
import type { Picture } from './picture.ts';

/** Below this the landmark network does not believe that it was shown a person. */
const MIN_SCORE = 0.5;

export interface PersonFinderOptions {
  /** `full` finds limbs more surely, `lite` is quicker. */
  readonly detail?: 'lite' | 'full';
  /** Where converted networks are kept; default: {@link defaultCacheDir} of the models. */
  readonly cacheDir?: string | undefined;
}

/** Loads the networks that find people; converts them at the first use on a machine. */
export async function openPersonFinder(options: PersonFinderOptions = {}): Promise<PersonFinder> {
  const detail = options.detail ?? 'full';
  const sessions = await Promise.all([
    openSession('pose_detector', options.cacheDir),
    openSession(detail === 'full' ? 'pose_full' : 'pose_lite', options.cacheDir),
  ]);
  return new TrackingPersonFinder(...sessions);
}

class TrackingPersonFinder implements PersonFinder {
  readonly #sessions: readonly InferenceSession[];
  readonly #detector: PersonDetector;
  readonly #fitter: PersonFitter;

  constructor(detector: InferenceSession, landmarks: InferenceSession) {
    this.#sessions = [detector, landmarks];
    this.#detector = new PersonDetector(detector);
    this.#fitter = new PersonFitter(landmarks);
  }

  async find(picture: Picture, before?: Person): Promise<Person | undefined> {
    if (before) {
      const tracked = await this.#fitter.fit(picture, before.next);
      if (tracked.score >= MIN_SCORE) return tracked;
    }
    for (const region of await this.#detector.detect(picture)) {
      const person = await this.#fitter.fit(picture, region);
      if (person.score >= MIN_SCORE) return person;
    }
    return undefined;
  }

  async close(): Promise<void> {
    await Promise.all(this.#sessions.map((session) => session.release()));
  }
}
