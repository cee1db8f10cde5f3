import type { Picture } from '@semblance/engine-api/picture';
import type { InferenceSession } from 'onnxruntime-node';
import { openSession } from './models/session.ts';
import type { Person, PersonFinder, SquareRegion } from './person.ts';
import { PersonDetector } from './person-detector.ts';
import { PersonFitter } from './person-landmarks.ts';

/** Smallest score of the landmark network for a person. */
const MIN_SCORE = 0.5;
/**
 * Least number of points present. The network keeps its score for a while after a person has left the picture, but
 * then few points are present. A face alone, or a pair of legs, has this many.
 */
const POINTS_PRESENT = 8;
const MIN_PRESENCE = 0.8;
/**
 * Weight of the score against size. Two people who stand close are seen as one large person with a slightly lower
 * score (0.985 against 1.000) than each alone.
 */
const SURENESS = 20;

/** Loads the networks that find people. */
export async function openPersonFinder(): Promise<PersonFinder> {
  const sessions = await Promise.all([openSession('pose_detector'), openSession('pose_full')]);
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
      if (tracked.score >= MIN_SCORE && isThere(tracked)) return tracked;
    }
    let most = 0;
    let chosen: Person | undefined;
    for (const region of await this.#detector.detect(picture)) {
      const first = await this.#fitter.fit(picture, region);
      // The detector's square is rough. The second fit is as good as the later fits in a video, and separates badly
      // fitted people from objects that look like people.
      const second = await this.#fitter.fit(picture, first.next);
      const score = (first.score + second.score) / 2;
      const merit = prominence(picture, second.mask.region) * score ** SURENESS;
      if (score < MIN_SCORE || !isThere(second) || merit <= most) continue;
      most = merit;
      chosen = second;
    }
    return chosen;
  }

  async close(): Promise<void> {
    await Promise.all(this.#sessions.map((session) => session.release()));
  }
}

function isThere({ points }: Person): boolean {
  return points.filter(({ presence }) => presence >= MIN_PRESENCE).length >= POINTS_PRESENT;
}

/**
 * Returns a larger value for a larger person, and for the more central of two of equal size. Area outside the
 * picture does not count.
 */
function prominence(picture: Picture, region: SquareRegion): number {
  const half = region.size / 2;
  const inside = (centre: number, length: number): number =>
    Math.max(0, Math.min(length, centre + half) - Math.max(0, centre - half));
  const area = inside(region.x, picture.width) * inside(region.y, picture.height);
  const away = Math.hypot(region.x / picture.width - 0.5, region.y / picture.height - 0.5);
  return area * (1 - 0.6 * Math.min(1, away));
}
