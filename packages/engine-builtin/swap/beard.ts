import type { RgbImage } from '@semblance/vision/picture';
import { blur, fillPolygon, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';
import { luma } from './light.ts';

/** Outlines of the skin between nose and upper lip, of the chin below the lower lip, and of the cheeks. */
export const MOUSTACHE = [98, 97, 2, 326, 327, 322, 391, 393, 164, 167, 165, 92] as const;
export const CHIN = [18, 83, 313, 182, 406, 204, 424, 211, 431, 199, 175, 171, 396] as const;
export const CHEEKS = [
  [50, 101, 36, 205, 187],
  [280, 330, 266, 425, 411],
] as const;
/** The skin over the corners of the mouth, which neither a nostril nor the nose shades. */
export const CORNERS = [
  [165, 92, 186, 57, 216],
  [391, 322, 410, 287, 436],
] as const;

/** Scales of hair, as shares of the face width. */
const HAIR = [0.006, 0.03] as const;
/** Weight of a texture stronger than that of the cheeks. */
const TEXTURE = 0.04;
/** Weights of colour: hair is paler than skin, or as red as it if it is red; a shadow is redder. */
const PALER = 1.5;
const REDDER = 0.5;
/** Evidence from which hair may show, and from which it surely is a beard. */
const BEARD = [0.27, 0.37] as const;
/** The same of a grey moustache, which is no darker than skin: how much less warm its colour is. */
const GREY = [0.085, 0.11] as const;

/** Share of an area that must be seen beside what is in front of it. */
const LEAST_SEEN = 0.25;

/** The look of one area: brightness; redness, warmth of the colour and texture relative to brightness. */
interface Look {
  readonly level: number;
  readonly red: number;
  readonly warm: number;
  readonly texture: number;
}

/**
 * Certainties from which a target keeps what hair it has around the mouth, and from which a source takes none along.
 * The skin around many mouths is darker than the cheeks; a source that is shaven for that loses what makes it alike.
 */
export const BEARD_KEPT = 0.2;
export const BEARD_SHAVEN = 0.92;

/**
 * Returns how surely a face wears a beard or a moustache, 0–1: compared with the cheeks, the skin around the mouth
 * is darker, rougher and not as red as a shadow would be, or it is paler, as grey hair is.
 * @param points x and y of each mesh point in pixels of the image, stride 2
 * @param front share of each pixel that something in front of the face covers: a hand on a cheek is no skin of it
 */
export function beardOf(
  image: RgbImage,
  points: Float32Array,
  faceWidth: number,
  front?: Plane | undefined,
): number {
  const bright = plane(image.width, image.height);
  for (let i = 0; i < bright.data.length; i++)
    bright.data[i] = luma(
      image.data[i * 3] as number,
      image.data[i * 3 + 1] as number,
      image.data[i * 3 + 2] as number,
    );
  const [fine, coarse] = HAIR.map((scale) => blur(bright, scale * faceWidth).data) as [
    Float32Array,
    Float32Array,
  ];
  const look = (groups: readonly (readonly number[])[]): Look | undefined => {
    const mask = plane(image.width, image.height);
    for (const group of groups) fillPolygon(mask, convexHull(points, group));
    let [all, count, level, red, warm, squares] = [0, 0, 0, 0, 0, 0];
    for (let i = 0; i < mask.data.length; i++) {
      if (!mask.data[i]) continue;
      all++;
      if ((front?.data[i] ?? 0) > 0.5) continue;
      count++;
      level += bright.data[i] as number;
      red += (image.data[i * 3] as number) - (image.data[i * 3 + 1] as number);
      warm += (image.data[i * 3] as number) - (image.data[i * 3 + 2] as number);
      squares += ((fine[i] as number) - (coarse[i] as number)) ** 2;
    }
    if (count <= LEAST_SEEN * all) return undefined;
    const by = 1 / (level / count + 8);
    return {
      level: level / count,
      red: (red / count) * by,
      warm: (warm / count) * by,
      texture: Math.sqrt(squares / count) * by,
    };
  };
  const cheeks = look(CHEEKS);
  const chin = look([CHIN]);
  const moustache = look([MOUSTACHE]);
  const corners = look(CORNERS);
  const hairy = [moustache, chin].filter((area) => area !== undefined);
  if (!cheeks || hairy.length === 0) return 0;
  const evidence = hairy.map(({ level, red }) => {
    const paler = cheeks.red - red;
    return 1 - level / Math.max(1, cheeks.level) + (paler > 0 ? PALER : REDDER) * paler;
  });
  const rougher = chin ? Math.max(0, chin.texture / (cheeks.texture + 0.004) - 1) : 0;
  return Math.max(
    smoothstep(BEARD[0], BEARD[1], Math.max(...evidence) + TEXTURE * rougher),
    corners ? smoothstep(GREY[0], GREY[1], cheeks.warm - corners.warm) : 0,
  );
}
