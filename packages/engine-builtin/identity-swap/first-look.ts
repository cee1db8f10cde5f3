import type { Media, Size, VideoFile } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { PersonFinder } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import { faceFrame } from '../animate/face-frame.ts';
import { shrunk } from '../video-swap/frame-part.ts';
import { PersonFaceFollower } from './face-follow.ts';
import { scaledMask, scaledPerson } from './follow.ts';
import { add, sub, toSegment } from './geometry.ts';
import { eyesAndChin } from './head-place.ts';
import { type PersonSearch, PersonTracker, searchStep } from './search.ts';
import { type Skeleton, showsLegs, skeletonOf } from './skeleton.ts';

/** Interval between the frames that are looked at, the most that show the person, and the first one beyond them. */
const INTERVAL = 12;
const LOOKS = 5;
const LATEST = 150;
/** Heights of the band beside the neck, on the way from the eyes (0) to the chin (1). */
const BAND = [0.55, 1.05] as const;
/** Distances of the band from the neck, least distance from the face's middle line and from the shoulders, in eye distances. */
const FROM_NECK = [1.05, 2] as const;
const FROM_MIDDLE = 1.1;
const FROM_SHOULDERS = 0.8;
/**
 * Share of the band from which hair counts as long. In 16 clips of real people hair that reaches the shoulders fills
 * 0.42 to 0.99 of it; short hair, a ponytail and collars up to 0.38.
 */
const LONG = 0.4;
/** Least area of the band, in squared eye distances. */
const LEAST = 0.3;
/** Share of a mask's pixel from which it is person. */
const PERSON = 64;

/** What the first frames of a video show of its person. */
export interface FirstLook {
  /** Whether its hair hangs beside the neck: what it hides, neck, shoulders and room, is in no frame. */
  readonly longHair: boolean;
  readonly legs: boolean;
}

/** Looks at some of the first frames of a video; what most of them show counts. */
export async function firstLook(
  { path, info, size }: VideoToLookAt,
  media: Media,
  tools: {
    readonly people: PersonFinder;
    readonly finder: FaceFinder;
    readonly signal: AbortSignal;
    readonly checkpoint: () => void;
  },
  named?: PersonSearch,
): Promise<FirstLook> {
  const { people, finder, signal, checkpoint } = tools;
  const [tracker, follower] = [new PersonTracker(people, named), new PersonFaceFollower(finder, checkpoint)];
  const step = searchStep(size);
  const [hair, legs]: [number[], number[]] = [[], []];
  for await (const frame of media.decodeVideo(path, info, { signal, size })) {
    checkpoint();
    if (frame.index >= LATEST || legs.length === LOOKS) break;
    if (frame.index % INTERVAL > 0) continue;
    // A person that was followed over so many frames at once would be misplaced.
    tracker.reset();
    follower.reset();
    const whole = { x: 0, y: 0, width: frame.width, height: frame.height };
    const part = (every: number) => shrunk(frame, whole, every, info.video.color).picture;
    const small = await tracker.track(part(step), { whole: () => part(1), step });
    const person = small && scaledPerson(small, step);
    if (!person) continue;
    const skeleton = skeletonOf(person.points);
    legs.push(showsLegs(skeleton) ? 1 : 0);
    const face = await follower.follow(frame, person);
    if (!face) continue;
    const [width, height] = [size.width / 2, size.height / 2];
    const data = maskInPicture(scaledMask(person.mask, 0.5), width, height);
    const share = hairBesideNeck({ width, height, data }, face, skeleton);
    if (share !== undefined) hair.push(share);
  }
  return { longHair: middleOf(hair) >= LONG, legs: middleOf(legs) > 0 };
}

function middleOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

interface VideoToLookAt {
  readonly path: string;
  readonly info: VideoFile;
  /** Size of the frames in which the person is looked at. */
  readonly size: Size;
}

/**
 * Returns which share of a band beside the neck, between jaw and shoulders, belongs to the person; undefined where a
 * raised or near shoulder leaves next to nothing of the band.
 * @param mask the person, 0–255, of half the frame's size
 * @param face x, y and z of the mesh points, in pixels of the frame
 */
export function hairBesideNeck(
  { width, height, data }: { readonly width: number; readonly height: number; readonly data: Uint8Array },
  face: Float32Array,
  { shoulders, shoulderSide, head }: Pick<Skeleton, 'shoulders' | 'shoulderSide' | 'head'>,
): number | undefined {
  const { eyes, chin } = eyesAndChin(face.filter((_, i) => i % 3 !== 2));
  const { iod } = faceFrame(face);
  const down = sub(chin, eyes);
  const toChin = Math.hypot(down.x, down.y);
  const [left, right] = [add(shoulders, shoulderSide), sub(shoulders, shoulderSide)];
  let [all, hair] = [0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = { x: 2 * x + 1, y: 2 * y + 1 };
      const d = sub(at, eyes);
      const below = (d.x * down.x + d.y * down.y) / (toChin * toChin);
      if (below < BAND[0] || below > BAND[1]) continue;
      const across = Math.abs(d.y * down.x - d.x * down.y) / (toChin * iod);
      const beside = toSegment(at, shoulders, head).distance / iod;
      if (beside < FROM_NECK[0] || beside > FROM_NECK[1] || across < FROM_MIDDLE) continue;
      if (toSegment(at, left, right).distance < FROM_SHOULDERS * iod) continue;
      all++;
      if ((data[y * width + x] as number) > PERSON) hair++;
    }
  }
  // A pixel of the mask is two wide and two high.
  return 4 * all < LEAST * iod * iod ? undefined : hair / all;
}
