import { join } from 'node:path';
import { readRgb } from '@semblance/testkit/engine-builtin/motion/drivers';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { LEFT_LIDS, type Lids, RIGHT_LIDS } from './expression.ts';
import { lookAround, type Seen } from './look.ts';
import { drawPortrait, type Portrait, posedPoints, REST } from './portrait.ts';
import { preparePortrait } from './prepare.ts';

/** A portrait with glasses, whose frame is close above her right eye. */
const HOPPER = join(import.meta.dirname, '..', '..', '..', 'media', 'grace_hopper.jpg');
const SHUT = { ...REST, expression: { eyes: [0, 0] as const } };

let seen: Seen;
let portrait: Portrait;
let dark: Portrait;

beforeAll(async () => {
  const names = ['blazeface', 'facemesh', 'face_cover'] as const;
  const [blazeface, facemesh, face_cover] = await Promise.all(names.map(openSession));
  if (!blazeface || !facemesh) throw new Error('the networks are missing');
  const finder = new FaceFinder({ blazeface, facemesh, ...(face_cover ? { face_cover } : {}) });
  const picture = await readRgb(sharp(HOPPER).extract({ left: 0, top: 0, width: 512, height: 600 }));
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('her face was not found');
  seen = await lookAround(picture, face, finder, () => undefined);
  portrait = preparePortrait(picture, face, seen);
  // A shadow from the brows down to the middle of the eyes: lids as dark as the eyes.
  const data = Uint8Array.from(picture.data);
  const [top, bottom] = [105, 159].map((v) => face.points[v * 3 + 1] as number) as [number, number];
  for (let y = Math.floor(top); y < bottom; y++)
    for (let i = y * picture.width * 3; i < (y + 1) * picture.width * 3; i++)
      data[i] = Math.min(25, data[i] as number);
  dark = preparePortrait({ ...picture, data }, face, seen);
});

/** Returns how far the middle of an eye is open in a pose, as a share of the still's opening. */
function openness(of: Portrait, lids: Lids, pose: Parameters<typeof posedPoints>[1]): number {
  const gap = (points: Float32Array): number => {
    const [u, l] = [lids.upper[3] as number, lids.lower[3] as number];
    return Math.hypot(
      (points[l * 2] as number) - (points[u * 2] as number),
      (points[l * 2 + 1] as number) - (points[u * 2 + 1] as number),
    );
  };
  return gap(posedPoints(of, pose)) / gap(posedPoints(of, REST));
}

describe('lids behind glasses', () => {
  it('close on both sides although the frame seems to cover one', () => {
    const covered = seen.covered?.points ?? [];
    expect(seen.covered?.framed).toBe(true);
    expect(Math.max(...RIGHT_LIDS.upper.map((v) => covered[v] as number))).toBeGreaterThan(0.9);
    expect(openness(portrait, RIGHT_LIDS, SHUT)).toBeLessThan(0.05);
    expect(openness(portrait, LEFT_LIDS, SHUT)).toBeLessThan(0.05);
  });

  it('leave the frame where it is', () => {
    const frame = drawPortrait(portrait, SHUT);
    const { width, still, shape } = portrait;
    // Where the frame crosses the nose, and its lower rims.
    for (const v of [168, 6, 119, 348]) {
      const i = Math.round(shape.rest[v * 3 + 1] as number) * width + Math.round(shape.rest[v * 3] as number);
      expect(Math.abs((frame[i] as number) - (still[i] as number))).toBeLessThan(8);
    }
  });

  it('stay open, both of them, where they show no skin', () => {
    expect(openness(dark, RIGHT_LIDS, REST)).toBe(1);
    const shown = drawPortrait(dark, SHUT);
    const rest = drawPortrait(dark, REST);
    expect(shown).toEqual(rest);
  });
});
