import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import type { RgbImage } from '@semblance/vision/picture';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { CORNERS, MOUSTACHE } from './beard.ts';
import { convexHull } from './convex-hull.ts';
import { luma } from './light.ts';
import { beardArea } from './shaven.ts';
import { ALL_SHOWN } from './shown-features.ts';
import { flatten, prepareSource } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

/** Mesh points on the skin over the lip; of the upper half of the upper lip, and of the lower lip. */
const LIP_SKIN = [164, 167, 393, 165, 391] as const;
const UPPER_LIP = [40, 37, 0, 267, 270, 303, 11, 73] as const;
const LOWER_LIP = [91, 84, 17, 314, 321, 402, 14, 178] as const;
/** The nostrils, right and left. */
const NOSTRILS = [
  [60, 20, 238, 79, 166],
  [290, 250, 458, 309, 392],
] as const;
const CHEEK = [50, 101, 118] as const;

let astronaut: Portrait;
let admiral: Portrait;

beforeAll(async () => {
  [astronaut, admiral] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

type Change = (r: number, g: number, b: number) => readonly number[];
const black: Change = () => [30, 28, 26];
const grey: Change = (_r, g) => [g, g, g];

/** Returns a portrait with a moustache. */
function moustached(
  { picture, face }: Portrait,
  change: Change,
  areas: readonly (readonly number[])[] = [MOUSTACHE, ...CORNERS],
): Portrait {
  const points = flatten(face.points);
  const hair = plane(picture.width, picture.height);
  for (const group of areas) fillPolygon(hair, convexHull(points, group));
  const data = picture.data.slice();
  for (let i = 0; i < hair.data.length; i++) {
    const [r, g, b] = [data[i * 3], data[i * 3 + 1], data[i * 3 + 2]] as [number, number, number];
    if (hair.data[i]) data.set(change(r, g, b), i * 3);
  }
  return { picture: { ...picture, data }, face };
}

/** Returns the mean brightness of the skin over the target's lip after a swap, and its warmth (red less blue). */
function lipSkin(source: Portrait, target: Portrait): { level: number; warm: number } {
  const picture = { ...target.picture, data: target.picture.data.slice() };
  swapFace(picture, target.face, prepareSource(source.picture, source.face, target.face.width));
  let [level, warm] = [0, 0];
  for (const index of LIP_SKIN) {
    const x = Math.round(target.face.points[index * 3] as number);
    const y = Math.round(target.face.points[index * 3 + 1] as number);
    const at = (y * picture.width + x) * 3;
    const [r, g, b] = [0, 1, 2].map((c) => picture.data[at + c]) as [number, number, number];
    level += luma(r, g, b) / LIP_SKIN.length;
    warm += (r - b) / LIP_SKIN.length;
  }
  return { level, warm };
}

describe('a moustache', () => {
  it.each([
    ['black', black],
    ['grey', grey],
  ] as const)('of a source that is %s leaves no trace on a bare lip', (_name, change) => {
    const bare = lipSkin(astronaut, admiral);
    const shaven = lipSkin(moustached(astronaut, change), admiral);
    expect(Math.abs(shaven.level - bare.level)).toBeLessThan(12);
    expect(Math.abs(shaven.warm - bare.warm)).toBeLessThan(12);
  });

  it('is not what makes skin around a mouth a little darker than the cheeks', () => {
    const beards = [0.78, 0.4].map((share) => {
      const { picture, face } = moustached(astronaut, (r, g, b) => [share * r, share * g, share * b]);
      return prepareSource(picture, face, face.width).beard;
    });
    expect(beards).toEqual([0, 1]);
  });

  it('of a target that is grey stays grey under a bare source', () => {
    const bare = lipSkin(admiral, astronaut);
    expect(lipSkin(admiral, moustached(astronaut, grey)).warm).toBeLessThan(0.3 * bare.warm);
  });
});

describe('a moustache that hangs over the lip of a target', () => {
  it('keeps lips in their place, also where a film showed it before', () => {
    const from = prepareSource(admiral.picture, admiral.face, astronaut.face.width);
    const hanging = moustached(astronaut, grey, [MOUSTACHE, ...CORNERS, UPPER_LIP]);
    const before = { taken: ALL_SHOWN, bearded: true };
    const plans = [
      planSwap(hanging.picture, hanging.face, from),
      planSwap(astronaut.picture, astronaut.face, from),
      planSwap(astronaut.picture, astronaut.face, from, { before }),
      planSwap(astronaut.picture, astronaut.face, from, { before: { ...before, overLip: true } }),
    ];
    expect(plans.map(({ overLip }) => overLip)).toEqual([true, false, false, true]);
    expect(plans.map(({ shape }) => shape.mouth)).toEqual([0, 1, 1, 0]);
    const share = plans.map((plan) => {
      const [x, y] = [0, 1].map((axis) => Math.round(plan.mixed[37 * 2 + axis] as number));
      return plan.skin.share.data[(y as number) * plan.width + (x as number)] as number;
    });
    expect(share[0]).toBeLessThan(0.2);
    expect(share[1]).toBeGreaterThan(0.5);
  });
});

describe('beardArea', () => {
  const imageOf = ({ picture }: Portrait): RgbImage => ({
    width: picture.width,
    height: picture.height,
    data: Float32Array.from(picture.data),
  });
  /** Returns the mean share of the area within an outline. */
  const within = (image: RgbImage, outline: readonly number[]): number => {
    const points = flatten(astronaut.face.points);
    const area = beardArea(image, points, astronaut.face.width);
    const mask = plane(image.width, image.height);
    fillPolygon(mask, convexHull(points, outline));
    let [sum, count] = [0, 0];
    for (let i = 0; i < mask.data.length; i++) {
      sum += (mask.data[i] as number) * (area.data[i] as number);
      count += mask.data[i] as number;
    }
    return sum / count;
  };

  it('is the skin around the mouth without red lips', () => {
    const image = imageOf(astronaut);
    expect(within(image, MOUSTACHE)).toBeGreaterThan(0.75);
    expect(within(image, UPPER_LIP)).toBeLessThan(0.6);
    expect(within(image, LOWER_LIP)).toBeLessThan(0.6);
    expect(within(image, CHEEK)).toBe(0);
    for (const nostril of NOSTRILS) expect(within(image, nostril)).toBeLessThan(0.1);
  });

  it('holds the upper lip where hair hangs over it', () => {
    const image = imageOf(astronaut);
    const lip = plane(image.width, image.height);
    fillPolygon(lip, convexHull(flatten(astronaut.face.points), UPPER_LIP));
    for (let i = 0; i < lip.data.length; i++) if (lip.data[i]) image.data.fill(60, i * 3, i * 3 + 3);
    expect(within(image, UPPER_LIP)).toBeGreaterThan(0.7);
    expect(within(image, LOWER_LIP)).toBeLessThan(0.6);
  });
});
