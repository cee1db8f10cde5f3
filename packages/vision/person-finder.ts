import type { Picture } from '@semblance/engine-api/picture';
import type { InferenceSession } from 'onnxruntime-node';
import { openSession } from './models/session.ts';
import type { BodyPoint, Person, PersonFinder, SquareRegion } from './person.ts';
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
/** Squares around a found person in which its points stay: their size relative to the first, and their turn in radians. */
const DISTURBED = [
  { zoom: 1.25, turn: 0 },
  { zoom: 0.85, turn: 0 },
  { zoom: 1, turn: 0.3 },
  { zoom: 1, turn: -0.3 },
] as const;

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

  async unrest(picture: Picture, person: Person): Promise<number> {
    const region = person.next;
    const { points } = await this.#fitter.fit(picture, region);
    let sum = 0;
    for (const { zoom, turn } of DISTURBED) {
      const square = { ...region, size: zoom * region.size, angle: region.angle + turn };
      const other = await this.#fitter.fit(picture, square);
      sum += meanMove(points, other.points) / region.size;
    }
    return sum / DISTURBED.length;
  }

  async close(): Promise<void> {
    await Promise.all(this.#sessions.map((session) => session.release()));
  }
}

function isThere({ points }: Person): boolean {
  return points.filter(({ presence }) => presence >= MIN_PRESENCE).length >= POINTS_PRESENT;
}

/** Returns how far points moved on average, in pixels. Each counts as much as it is surely seen. */
function meanMove(points: readonly BodyPoint[], others: readonly BodyPoint[]): number {
  let [sum, all] = [0, 0];
  for (const [i, { x, y, visibility, presence }] of points.entries()) {
    const other = others[i] as BodyPoint;
    const seen = Math.min(visibility, presence);
    sum += seen * Math.hypot(other.x - x, other.y - y);
    all += seen;
  }
  return sum / Math.max(1e-6, all);
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
