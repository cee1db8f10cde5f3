import { pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { RgbImage } from '@semblance/vision/picture';
import { flood } from '@semblance/vision/plane/flood';
import {
  blur,
  distanceInside,
  fillPolygon,
  grow,
  type Plane,
  plane,
  smoothstep,
} from '@semblance/vision/plane/plane';
import type { FaceFrame } from '../animate/face-frame.ts';
import { colourCells, guided, histogram } from '../animate/matte.ts';
import { opponent } from '../swap/skin.ts';

/** Height above the chin from which the head ends at the outline of the face, and at which it does fully. */
const JAW = [0.75, 0.35] as const;
/** Heights above the chin between which shoulders and collars can begin beside the face. */
const SHOULDERS = [1.3, 0.95] as const;
/** Distance from the outline of the face within which ears lie, and cheeks below them. */
const EARS = [0.3, 0.5] as const;
const CHEEKS = [0.15, 0.3] as const;
/** Distance below the outline of the face over which the neck fades, in eye distances. */
const NECK = [0.05, 0.32] as const;
/** Distance below the chin over which long hair fades, and its largest distance from the middle. */
const HAIR_END = [1.9, 2.8] as const;
const HAIR_SIDE = [2.4, 3.1] as const;
/** Band beside the cheek, above the chin, that long hair crosses, and how much of it, in squared eye distances. */
const CHEEK = [-1, -0.5] as const;
const BESIDE = [0.09, 0.18] as const;
/** Width of the thinnest strand over the shoulders, in eye distances. */
const STRAND = 0.12;
/** Deviation of the hue of skin, in levels. */
const HUE = 11;
/** Half the width of a line that is too thin for skin, in eye distances. */
const LINE = 0.1;
/** Fewest pixels that show how hair looks, in squared eye distances. */
const LEAST_HAIR = 0.25;

/**
 * Returns the share of each pixel that belongs to the head: all above the mouth; beside the mouth ears and hair; below
 * the jaw the beginning of the neck, which fades, and long hair.
 * @param matte share of the person in each pixel
 */
export function headShare(
  image: RgbImage,
  matte: Plane,
  place: { readonly points: Float32Array; readonly frame: FaceFrame },
): Plane {
  const { width, height } = image;
  const { iod } = place.frame;
  const { across, below, outside } = facePlace(width, height, place);
  const hair = longHair(image, matte, { across, below, outside, iod });
  const skin = bareSkin(image, matte, { across, below, outside, iod });
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const under = smoothstep(-JAW[0], -JAW[1], below.data[i] as number);
    const far = outside.data[i] as number;
    // Beside the neck clothes begin at once.
    const narrow = 1 - 0.7 * smoothstep(0.6, 0.95, Math.abs(across.data[i] as number));
    const neck =
      (1 - smoothstep(NECK[0] * narrow, NECK[1] * narrow, far)) *
      (1 - smoothstep(0, 0.06, far) * (1 - (skin.data[i] as number)));
    const cloth = smoothstep(0.03, 0.1, far) * (1 - (skin.data[i] as number));
    const beside =
      smoothstep(-SHOULDERS[0], -SHOULDERS[1], below.data[i] as number) *
      Math.max(
        cloth,
        smoothstep(CHEEKS[0], CHEEKS[1], far) * smoothstep(-1.1, -0.9, below.data[i] as number),
        smoothstep(EARS[0], EARS[1], far),
      );
    out.data[i] = Math.max(Math.min(1 - under * (1 - neck), 1 - beside), hair.data[i] as number);
  }
  return blur(out, 0.03 * iod);
}

interface FacePlace {
  /**
   * Distance of each pixel from the middle line of the face to the right, and from the chin downwards, in eye
   * distances.
   */
  readonly across: Plane;
  readonly below: Plane;
  /** Distance outside the outline of the face, in eye distances. */
  readonly outside: Plane;
}

function facePlace(
  width: number,
  height: number,
  { points, frame: { iod, origin, axes } }: { points: Float32Array; frame: FaceFrame },
): FacePlace {
  const norm = Math.hypot(axes[1] as number, axes[4] as number);
  const [downX, downY] = [(axes[1] as number) / norm, (axes[4] as number) / norm];
  const chin = pointOf(points, 152);
  const free = plane(width, height, 1);
  fillPolygon(
    free,
    FACE_OVAL.flatMap((i) => [points[i * 3] as number, points[i * 3 + 1] as number]),
    0,
  );
  const outside = distanceInside(free, false);
  const across = plane(width, height);
  const below = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      outside.data[i] = (outside.data[i] as number) / iod;
      across.data[i] = ((x + 0.5 - origin[0]) * downY - (y + 0.5 - origin[1]) * downX) / iod;
      below.data[i] = ((x + 0.5 - chin.x) * downX + (y + 0.5 - chin.y) * downY) / iod;
    }
  }
  return { across, below, outside };
}

/** Returns how likely each pixel shows the face's skin rather than clothes. */
function bareSkin(
  image: RgbImage,
  matte: Plane,
  { below, outside, iod }: FacePlace & { readonly iod: number },
): Plane {
  const cells = colourCells(image);
  const at = (field: Plane, i: number): number => field.data[i] as number;
  const face = histogram(cells, (i) => (at(outside, i) === 0 ? 1 : 0));
  const clothes = histogram(cells, (i) => (at(below, i) > 1.2 && at(matte, i) > 0.8 ? 1 : 0));
  const out = plane(image.width, image.height);
  const { y, cb, cr } = opponent(image);
  let [faceCb, faceCr, count] = [0, 0, 1e-6];
  for (let i = 0; i < cells.length; i++) {
    if (at(outside, i) > 0) continue;
    faceCb += at(cb, i);
    faceCr += at(cr, i);
    count++;
  }
  for (let i = 0; i < cells.length; i++) {
    const cell = cells[i] as number;
    const far = Math.hypot(at(cb, i) - faceCb / count, at(cr, i) - faceCr / count);
    // A colour of neither is skin in the shade when its hue is that of the face; white collars are grey.
    const unknown = 1e-4 * Math.exp(-((far / HUE) ** 2) / 2);
    const [skin, cloth] = [(face[cell] as number) + unknown, (clothes[cell] as number) + 3e-5];
    out.data[i] = skin / (skin + cloth);
  }
  const smooth = guided(y, out, Math.max(2, 0.08 * iod), 60);
  // A line between clothes and background has mixed colours, which may be those of skin.
  const broad = grow(grow(above(smooth, 0.4), -LINE * iod), 1.5 * LINE * iod);
  return {
    ...smooth,
    data: smooth.data.map((value, i) => smoothstep(0.25, 0.6, value) * (broad.data[i] as number)),
  };
}

function above(values: Plane, least: number): Plane {
  return { ...values, data: values.data.map((value) => (value > least ? 1 : 0)) };
}

/** Returns where hair falls beside the neck and over the shoulders, by its colour on the head. */
function longHair(
  image: RgbImage,
  matte: Plane,
  { across, below, outside, iod }: FacePlace & { readonly iod: number },
): Plane {
  const { width, height } = image;
  const at = (field: Plane, i: number): number => field.data[i] as number;
  const wide = (i: number): number => Math.abs(at(across, i));
  const isHead = (i: number): boolean =>
    at(below, i) < -SHOULDERS[0] && at(outside, i) > 0.1 && at(matte, i) > 0.8;
  const isBody = (i: number): boolean => at(below, i) > (wide(i) < 0.9 ? 0.6 : 2.2) && at(matte, i) > 0.8;
  const isFace = (i: number): boolean => at(outside, i) === 0;
  const cells = colourCells(image);
  const seeds: number[] = [];
  for (let i = 0; i < cells.length; i++) if (isHead(i)) seeds.push(i);
  const out = plane(width, height);
  if (seeds.length < LEAST_HAIR * iod ** 2) return out;
  const share = (is: (i: number) => boolean): Float64Array => histogram(cells, (i) => (is(i) ? 1 : 0));
  const [head, body, face] = [share(isHead), share(isBody), share(isFace)];
  for (let i = 0; i < cells.length; i++) {
    if (at(matte, i) < 0.3) continue;
    const cell = cells[i] as number;
    const other = Math.max(body[cell] as number, face[cell] as number);
    const odds = Math.log(((head[cell] as number) + 2e-5) / (other + 2e-5));
    const near = 1 - smoothstep(0.4, 1.1, at(outside, i) - 0.8);
    // Under the chin there is no hair, but there may be clothes of its colour.
    const under = (1 - smoothstep(0.5, 0.9, wide(i))) * smoothstep(-0.3, 0, at(below, i));
    const over = smoothstep(0.7, 1, wide(i)) * (1 - smoothstep(-0.2, 0.5, at(below, i)));
    out.data[i] = 1 / (1 + Math.exp(-1.5 * odds - 1.2 * near + 1.2 + 4 * under - 1.5 * over));
  }
  const { y } = opponent(image);
  const smooth = guided(y, out, Math.max(2, 0.1 * iod), 60);
  const joined = flood(width, height, seeds, (i) => at(smooth, i) > 0.5 && at(matte, i) > 0.4);
  // Hair that does not come down beside the cheek does not lie on the shoulder; dark clothes may look like it.
  const beside = [0, 0];
  for (let i = 0; i < cells.length; i++) {
    const here = at(below, i) > CHEEK[0] && at(below, i) < CHEEK[1] && at(outside, i) > 0.05;
    if (here && joined[i])
      beside[at(across, i) < 0 ? 0 : 1] = (beside[at(across, i) < 0 ? 0 : 1] as number) + 1;
  }
  const falls = beside.map((count) => smoothstep(BESIDE[0], BESIDE[1], count / iod ** 2));
  for (let i = 0; i < cells.length; i++) {
    // Hair beside the mouth needs not fall to the shoulders.
    const above = 1 - smoothstep(-SHOULDERS[1], -JAW[0], at(below, i));
    const ends =
      Math.max(above, falls[at(across, i) < 0 ? 0 : 1] as number) *
      (1 - smoothstep(HAIR_END[0], HAIR_END[1], at(below, i))) *
      (1 - smoothstep(HAIR_SIDE[0], HAIR_SIDE[1], wide(i)));
    out.data[i] = joined[i] ? ends * smoothstep(0.4, 0.7, at(smooth, i)) : 0;
  }
  // A strand too thin to show as hair is a scrap of clothes, or would look like one.
  const broad = blur(out, STRAND * iod);
  for (let i = 0; i < cells.length; i++) {
    if (at(below, i) > -JAW[1]) out.data[i] = at(out, i) * smoothstep(0.25, 0.45, at(broad, i));
  }
  return out;
}
