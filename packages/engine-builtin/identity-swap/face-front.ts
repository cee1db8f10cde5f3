import type { ColorTags, VideoFrame } from '@semblance/media/types';
import { withoutBareSkin } from '@semblance/vision/bare-skin';
import { COVERED, coverAt, coverCrop, shareCovered } from '@semblance/vision/face-cover';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { type CropSource, type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { BODY, type Person } from '@semblance/vision/person';
import { toCrop, toPicture } from '@semblance/vision/picture';
import { flood } from '@semblance/vision/plane/flood';
import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';

/** Weight of the present frame in what is in front of a face. */
const PRESENT = 0.6;
/** Least share of an object that lies below the tip of the nose. Less means that the person wears it: glasses, a hat. */
const LOW = 0.3;
/** Least share of the face that an object in front covers. */
const LEAST = 0.03;
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

  /**
   * What has the colour of skin counts only where a hand of the person is near: a chin or a cheek that the network takes
   * for an object would be left on the new head.
   * @returns how surely each pixel of the crop around the face is covered; undefined when nothing is
   */
  async look(
    frame: VideoFrame,
    points: Float32Array | undefined,
    person: Person | undefined,
  ): Promise<Plane | undefined> {
    const face = points && faceFromPoints(points, 1);
    const crops = cropsOfFrame(frame, this.#color);
    const found = face && (await this.#finder.coverOf(crops, face));
    const hand = face && person && handIsNear(person, face);
    const seen = found && (hand ? found : withoutSkin(found, crops, face));
    const before = this.#before;
    this.#before = seen && { ...seen, data: mixed(seen.data, before?.data) };
    return this.#before && face && withoutWorn(this.#before, face);
  }
}

function withoutSkin(cover: Plane, crops: CropSource, face: Face): Plane {
  const crop = coverCrop(face);
  const pixels = crops(crop, cover.width);
  return withoutBareSkin(cover, { crop, pixels, from: COVERED[0] }, face, 1);
}

/**
 * Returns what is in front without glasses and hats, which go with the person, and without what only borders on the
 * face: hair and room. Returns undefined when nothing is left.
 */
function withoutWorn(cover: Plane, face: Face): Plane | undefined {
  const { width, height } = cover;
  const crop = coverCrop(face);
  const at = (i: number): { x: number; y: number } =>
    toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
  const oval = plane(width, height);
  fillPolygon(
    oval,
    FACE_OVAL.flatMap((i) => [at(i).x, at(i).y]),
  );
  const least = LEAST * oval.data.reduce((sum, value) => sum + value, 0);
  const nose = at(4).y;
  const covers = (i: number): boolean => shareCovered(cover.data[i] as number) > 0;
  const out = plane(width, height);
  const done = new Uint8Array(width * height);
  let some = false;
  for (let i = 0; i < done.length; i++) {
    if (done[i] || !covers(i)) continue;
    const object = flood(width, height, [i], covers);
    let [all, low] = [0, 0];
    for (let k = 0; k < object.length; k++) {
      if (!object[k]) continue;
      done[k] = 1;
      const inside = oval.data[k] as number;
      all += inside;
      if (Math.floor(k / width) > nose) low += inside;
    }
    if (all < least || low < LOW * all) continue;
    some = true;
    for (let k = 0; k < object.length; k++) if (object[k]) out.data[k] = cover.data[k] as number;
  }
  return some ? out : undefined;
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
