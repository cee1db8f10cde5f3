import { seeded } from '@semblance/testkit/sound/random';
import { pointOf } from '@semblance/vision/face-mesh';
import { areaOf, CHEEKS, meanLab } from '../face-areas.ts';
import { evenSized } from './animated.ts';
import { type DegradationName, degrade } from './degrade.ts';
import type { Portrait } from './portrait.ts';

/** A portrait that is to be animated. */
export interface Still extends Pick<Portrait, 'label' | 'picture'> {
  readonly kind: string;
}

interface Kind {
  /** Portraits with the highest values are drawn from. */
  readonly by?: (portrait: Portrait) => number;
  /** Whether a portrait is of the kind at all. */
  readonly is?: (portrait: Portrait) => boolean;
  readonly changed?: DegradationName;
}

/** Share of the portraits from which those of a trait are drawn: those that show it most. */
const MOST = 0.06;

const KINDS: Readonly<Record<string, Kind>> = {
  'patterned background': { by: patternOf },
  smiling: { is: ({ traits }) => traits.teeth > 0.25 },
  'closed lips': { is: ({ traits }) => traits.opening < 0.03 },
  glasses: { is: ({ traits }) => traits.glasses },
  beard: { by: beardOf },
  'dark skin': { by: ({ traits }) => -traits.lightness },
  'light skin': { by: ({ traits }) => traits.lightness },
  'black and white': { changed: 'grey' },
  'plain background': { by: (portrait) => -patternOf(portrait) },
  'small face': { changed: 'small-face' },
};
const STILLS = Object.keys(KINDS);

/** Returns stills by a seed, of each kind in turn; no portrait comes twice. */
export async function chooseStills(
  portraits: readonly Portrait[],
  count: number,
  seed: number,
): Promise<Still[]> {
  const random = seeded(seed);
  const free = new Set(portraits);
  const stills: Still[] = [];
  for (let n = 0; n < count; n++) {
    const name = STILLS[n % STILLS.length] as string;
    const { by, is, changed } = KINDS[name] as Kind;
    const fit = [...free].filter((portrait) => is?.(portrait) ?? true);
    const values = new Map(fit.map((portrait) => [portrait, by?.(portrait) ?? 0]));
    const few = by ? Math.ceil(MOST * portraits.length) : fit.length;
    const most = fit.sort((a, b) => (values.get(b) as number) - (values.get(a) as number)).slice(0, few);
    const portrait = most[Math.floor(random() * most.length)];
    if (!portrait) throw new RangeError(`no portrait of the kind ${name} is left`);
    free.delete(portrait);
    const { label, face } = portrait;
    const picture = changed ? await degrade(changed, portrait.picture, face, seed + n) : portrait.picture;
    stills.push({ kind: name, label, picture: await evenSized(picture) });
  }
  return stills;
}

/** Skin that a beard covers, beside the mouth and on the chin, and that above it. */
export const BEARD = [
  [194, 32, 140, 171, 175, 396, 369, 262, 418, 421, 200, 201],
  [98, 2, 327, 391, 393, 164, 167, 165],
];
/** Returns by how much the skin where a beard grows is darker than the cheeks. A shadow is on one of the two parts. */
function beardOf({ picture, face }: Portrait): number {
  const [cheeks = 0] = meanLab(picture, areaOf(picture, face, CHEEKS));
  return Math.min(...BEARD.map((part) => cheeks - (meanLab(picture, areaOf(picture, face, [part]))[0] ?? 0)));
}

/** Returns the mean step between pixels beside the head, in levels. */
function patternOf({ picture, face }: Portrait): number {
  const { width, data } = picture;
  const { x } = pointOf(face.points, 168);
  const bottom = Math.min(picture.height, pointOf(face.points, 152).y);
  let [sum, count] = [0, 0];
  for (let row = 0; row < bottom; row++)
    for (let at = 1; at < width; at++) {
      if (Math.abs(at - x) < 0.95 * face.width) continue;
      const i = (row * width + at) * 3 + 1;
      sum += Math.abs((data[i] as number) - (data[i - 3] as number));
      count++;
    }
  return count > 0 ? sum / count : 0;
}
