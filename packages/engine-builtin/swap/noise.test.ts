import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { seeded } from '@semblance/testkit/sound/random';
import { beforeAll, describe, expect, it } from 'vitest';
import { targetNoise } from './noise.ts';
import { prepareSource } from './source-face.ts';
import { planSwap } from './swap-face.ts';

let target: Portrait;
let source: Portrait;

beforeAll(async () => {
  [target, source] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

/** Returns a picture with grey noise; the sum of twelve uniform values has a deviation of 1. */
function noisy(picture: Picture, deviation: number): Picture {
  const random = seeded(7);
  const data = picture.data.slice();
  for (let i = 0; i < data.length; i += 3) {
    let sum = -6;
    for (let k = 0; k < 12; k++) sum += random();
    for (let c = 0; c < 3; c++)
      data[i + c] = Math.min(255, Math.max(0, (data[i + c] as number) + deviation * sum));
  }
  return { ...picture, data };
}

describe('noise', () => {
  it('is measured on the cheeks in levels', () => {
    const { picture, face } = target;
    const flat = { ...picture, data: picture.data.slice().fill(128) };
    expect(targetNoise(flat, face)).toBe(0);
    for (const deviation of [3, 8]) {
      const measured = targetNoise(noisy(flat, deviation), face);
      expect(measured / deviation).toBeGreaterThan(0.8);
      expect(measured / deviation).toBeLessThan(1.2);
    }
  });

  it('of the picture goes over to the features, no stronger than it is', () => {
    const grainIn = (picture: Picture) =>
      planSwap(picture, target.face, prepareSource(source.picture, source.face, target.face.width)).grain;
    const { share, limit } = grainIn(noisy(target.picture, 8));
    expect(share).toBeGreaterThan(0.8);
    expect(limit).toBe(10);
    const clean = grainIn(target.picture);
    expect(clean.limit).toBeLessThan(6);
    expect(clean.share).toBeLessThan(share);
  });
});
