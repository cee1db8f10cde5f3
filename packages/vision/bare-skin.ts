import { type Face, pointOf } from './face-mesh.ts';
import { FACE_OVAL, LEFT_EYE, LIPS_OUTER, NOSE_BASE, RIGHT_EYE } from './face-regions.ts';
import { type CropTransform, toCrop } from './picture.ts';
import { flood } from './plane/flood.ts';
import { fillPolygon, grow, type Plane, plane } from './plane/plane.ts';

/**
 * Limits of what counts as bare skin. On 10 portraits each, hands on a cheek lie outside the face with 0.39 or more of
 * their area; the cheeks of turned heads that the network took for objects, with 0.19 or less.
 */
const OUTSIDE = 0.25;
/** Largest share of the lips, of the nose and of an eye that it may cover. */
const LIPS = 0.05;
const NOSE = 0.1;
const EYE = 0.3;
/** Largest distance of its colour, without brightness, from that of the other skin, in levels; and how much darker it may be. */
const COLOUR = 12;
const DARKER = 15;
/** Distance around the outline of a face that still belongs to it, in pixels of the crop. */
const AROUND = 3;

/**
 * Returns a cover without areas that are bare skin: evenly lit cheeks of turned heads, which the network takes for
 * objects. Such an area lies within the face, hides no feature and has the colour of the skin.
 * @param cover how surely each pixel of a crop around the face is covered
 * @param seen the crop, its red, green and blue, and the value from which the cover counts
 * @param outside share of an area up to which it may lie outside the face; 1 where it is known that no hand is near
 */
export function withoutBareSkin(
  cover: Plane,
  {
    crop,
    pixels,
    from,
  }: { readonly crop: CropTransform; readonly pixels: Float32Array; readonly from: number },
  face: Face,
  outside: number = OUTSIDE,
): Plane {
  const { width, height } = cover;
  const covers = (i: number): boolean => (cover.data[i] as number) > from;
  const first = cover.data.findIndex((_, i) => covers(i));
  if (first < 0) return cover;
  const area = (outline: readonly number[]): Plane => {
    const out = plane(width, height);
    fillPolygon(
      out,
      outline.flatMap((i) => {
        const { x, y } = pointOf(face.points, i);
        const at = toCrop(crop, x, y);
        return [at.x, at.y];
      }),
    );
    return out;
  };
  const oval = area(FACE_OVAL);
  const reach = grow(oval, AROUND);
  const features = [
    [area(LIPS_OUTER), LIPS],
    [area(NOSE_BASE), NOSE],
    [area(RIGHT_EYE), EYE],
    [area(LEFT_EYE), EYE],
  ] as const;
  const skin = meanColour(pixels, oval.data.length, (i) => !covers(i) && (oval.data[i] as number) > 0.99);
  const out = { ...cover, data: cover.data.slice() };
  const done = new Uint8Array(cover.data.length);
  for (let i = first; i < done.length; i++) {
    if (done[i] || !covers(i)) continue;
    const object = flood(width, height, [i], covers);
    for (let k = 0; k < object.length; k++) if (object[k]) done[k] = 1;
    const within = shareOf(reach, object) / Math.max(1, sum(object));
    const hides = features.some(([feature, most]) => shareOf(feature, object) > most * sum(feature.data));
    if (1 - within > outside || hides) continue;
    const own = meanColour(pixels, object.length, (k) => object[k] === 1);
    if (own.y < skin.y - DARKER || Math.hypot(own.red - skin.red, own.blue - skin.blue) > COLOUR) continue;
    for (let k = 0; k < object.length; k++) if (object[k]) out.data[k] = 0;
  }
  return out;
}

function sum(values: ArrayLike<number>): number {
  let all = 0;
  for (let i = 0; i < values.length; i++) all += values[i] as number;
  return all;
}

function shareOf({ data }: Plane, object: Uint8Array): number {
  let all = 0;
  for (let i = 0; i < object.length; i++) if (object[i]) all += data[i] as number;
  return all;
}

/** Returns the mean brightness of some pixels, and how far red and blue are above it. */
function meanColour(
  pixels: Float32Array,
  count: number,
  isIn: (i: number) => boolean,
): { y: number; red: number; blue: number } {
  let [n, r, g, b] = [1e-9, 0, 0, 0];
  for (let i = 0; i < count; i++) {
    if (!isIn(i)) continue;
    n++;
    r += pixels[i * 3] as number;
    g += pixels[i * 3 + 1] as number;
    b += pixels[i * 3 + 2] as number;
  }
  const y = (0.299 * r + 0.587 * g + 0.114 * b) / n;
  return { y, red: r / n - y, blue: b / n - y };
}
