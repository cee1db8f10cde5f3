import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { beforeAll, describe, expect, it } from 'vitest';
import { ANIMATION_LIMITS } from './animation-measures.ts';
import { areaOf } from './face-areas.ts';
import { insideOf, type Tones, tonesOf } from './moved-mouth.ts';

let portrait: Portrait;
let tones: Tones;

beforeAll(async () => {
  [portrait] = (await openPortraits(ASTRONAUT)) as [Portrait];
  tones = tonesOf(portrait.picture, portrait.face);
});

/** Returns the portrait with another inside of the mouth. @param share 0 at the upper lip, 1 at the lower one */
function inside(colour: (share: number, own: readonly number[]) => readonly number[]): Picture {
  const { picture, face } = portrait;
  const mask = areaOf(picture, face, [LIPS_INNER]);
  const ys = LIPS_INNER.map((i) => face.points[i * 3 + 1] as number);
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  const data = picture.data.slice();
  for (let i = 0; i < mask.data.length; i++)
    if (mask.data[i]) {
      const share = (Math.floor(i / picture.width) - top) / (bottom - top);
      data.set(colour(share, [...data.slice(i * 3, i * 3 + 3)]), i * 3);
    }
  return { ...picture, data };
}

const seen = (picture: Picture) => insideOf(tones, picture, portrait.face);

describe('the inside of a mouth', () => {
  it('has the tones of the still in the still', () => {
    expect(seen(portrait.picture)).toEqual({ dark: 0, bright: 0, flat: 0 });
  });

  it('is too bright with teeth that are whiter than those of the still', () => {
    const dim = { ...portrait.picture, data: portrait.picture.data.map((value) => 0.75 * value) };
    const own = tonesOf(dim, portrait.face);
    expect(insideOf(own, dim, portrait.face)?.bright).toBe(0);
    expect(insideOf(own, portrait.picture, portrait.face)?.bright).toBeGreaterThan(
      ANIMATION_LIMITS.bright[1],
    );
  });

  it('is too dark where it is a black hole in a pale face', () => {
    const pale = { ...portrait.picture, data: portrait.picture.data.map((value) => 90 + 0.6 * value) };
    const hole = inside(() => [0, 0, 0]);
    expect(insideOf(tonesOf(pale, portrait.face), hole, portrait.face)?.dark).toBeGreaterThan(
      ANIMATION_LIMITS.dark[1],
    );
  });

  it('is not flat where the mesh takes dark lips for it', () => {
    const { picture, face } = portrait;
    const lips = areaOf(picture, face, [LIPS_OUTER]);
    const dark = picture.data.slice();
    for (let i = 0; i < lips.data.length; i++) if (lips.data[i]) dark.set([70, 35, 30], i * 3);
    const still = { ...picture, data: dark };
    expect(insideOf(tonesOf(still, face), still, face)?.flat).toBe(0);
  });

  it('is flat where it is filled with one brown', () => {
    const brown = inside((share, own) => (share > 0.4 ? [70, 35, 30] : own));
    expect(seen(brown)?.flat).toBeGreaterThan(ANIMATION_LIMITS.flat[1]);
    const grainy = inside((share, own) =>
      share > 0.4 ? [70, 35, 30].map((value, c) => value + ((own[c] as number) % 7) - 3) : own,
    );
    expect(seen(grainy)?.flat).toBeGreaterThan(ANIMATION_LIMITS.flat[1]);
    const shaded = inside((share, own) =>
      share > 0.4 ? [130 * (1 - share), 60 * (1 - share), 50 * (1 - share)] : own,
    );
    expect(seen(shaded)?.flat).toBeLessThan(ANIMATION_LIMITS.flat[1]);
  });
});
