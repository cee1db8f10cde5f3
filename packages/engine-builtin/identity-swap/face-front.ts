import type { ColorTags, VideoFrame } from '@semblance/media/types';
import { coverAt, coverCrop, shareCovered } from '@semblance/vision/face-cover';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { BODY, type Person } from '@semblance/vision/person';
import { toPicture } from '@semblance/vision/picture';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';

/** Weight of the present frame in what is in front of a face. */
const PRESENT = 0.6;
/** Distance from the middle of a face, in face widths, within which a hand counts as in front of it. */
const HAND_NEAR = 0.9;
const HANDS = [
  BODY.leftWrist,
  BODY.rightWrist,
  BODY.leftIndex,
  BODY.rightIndex,
  BODY.leftThumb,
  BODY.rightThumb,
] as const;

/** Finds what is in front of a person's face, frame after frame. */
export class FaceFront {
  readonly #finder: FaceFinder;
  readonly #color: Pick<ColorTags, 'range' | 'space'>;
  #before: Plane | undefined;

  constructor(finder: FaceFinder, color: Pick<ColorTags, 'range' | 'space'>) {
    this.#finder = finder;
    this.#color = color;
  }

  reset(): void {
    this.#before = undefined;
  }

  /** @returns how surely each pixel of the crop around the face is covered; undefined when nothing is */
  async look(frame: VideoFrame, points: Float32Array | undefined): Promise<Plane | undefined> {
    const face = points && faceFromPoints(points, 1);
    const seen = face && (await this.#finder.coverOf(cropsOfFrame(frame, this.#color), face));
    const before = this.#before;
    this.#before = seen && { ...seen, data: mixed(seen.data, before?.data) };
    return this.#before?.data.some((share) => shareCovered(share) > 0) ? this.#before : undefined;
  }
}

/** Both are of crops around the same face, so they lie on each other however it moves. */
function mixed(now: Float32Array, before: Float32Array | undefined): Float32Array {
  if (!before) return now;
  return now.map((share, i) => PRESENT * share + (1 - PRESENT) * (before[i] as number));
}

/** Returns the share of each chroma pixel of a frame that is in front of a face. */
export function frontInFrame(
  cover: Plane,
  face: Face,
  size: { readonly width: number; readonly height: number },
): Plane {
  const out = plane(size.width / 2, size.height / 2);
  const crop = coverCrop(face);
  const corners = [0, cover.width].flatMap((x) => [0, cover.height].map((y) => toPicture(crop, x, y)));
  const [xs, ys] = [corners.map(({ x }) => x / 2), corners.map(({ y }) => y / 2)];
  for (let y = Math.max(0, Math.floor(Math.min(...ys))); y < Math.min(out.height, Math.max(...ys)); y++) {
    for (let x = Math.max(0, Math.floor(Math.min(...xs))); x < Math.min(out.width, Math.max(...xs)); x++) {
      const share = coverAt(cover, crop, 2 * x + 1, 2 * y + 1);
      out.data[y * out.width + x] = shareCovered(share);
    }
  }
  return out;
}

/** Whether a hand of the person is in front of the face: where the whole person is replaced, it is too. */
export function handIsNear({ points }: Person, face: Face): boolean {
  const middle = { x: face.points[4 * 3] as number, y: face.points[4 * 3 + 1] as number };
  return HANDS.some((index) => {
    const hand = points[index];
    if (!hand || hand.presence < 0.5) return false;
    return Math.hypot(hand.x - middle.x, hand.y - middle.y) < HAND_NEAR * face.width;
  });
}
