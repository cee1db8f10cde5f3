import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { cropsOf } from '@semblance/vision/face-mesh';
import { gazeOf } from '@semblance/vision/gaze';
import { beforeAll, describe, expect, it } from 'vitest';
import { compose } from './compose.ts';
import { prepareSource } from './source-face.ts';
import { planSwap } from './swap-face.ts';

let target: Portrait;
let source: Portrait;

beforeAll(async () => {
  [target, source] = (await openPortraits(ADMIRAL, ASTRONAUT)) as [Portrait, Portrait];
});

const asideOf = (picture: Picture): number => gazeOf(cropsOf(picture), target.face.points).aside;

function swapped(turned: boolean): Picture {
  const { picture, face } = target;
  const result = { ...picture, data: picture.data.slice() };
  const prepared = prepareSource(source.picture, source.face, face.width);
  const gaze = gazeOf(cropsOf(picture), face.points);
  compose(result, planSwap(picture, face, prepared, { gaze, turned }), prepared);
  return result;
}

describe('new eyes', () => {
  it('look where the target looks, not where the source does', () => {
    const wanted = asideOf(target.picture);
    expect(Math.abs(asideOf(swapped(true)) - wanted)).toBeLessThan(0.04);
    expect(Math.abs(asideOf(swapped(false)) - wanted)).toBeGreaterThan(0.07);
  });
});
