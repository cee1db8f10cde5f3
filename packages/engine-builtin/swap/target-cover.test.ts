import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceCover } from '@semblance/vision/face-cover';
import { cropsOf } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import type { Plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { prepareSource } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

let target: Portrait;
let source: Portrait;
let network: FaceCover;

beforeAll(async () => {
  [target, source] = (await openPortraits(ADMIRAL, ASTRONAUT)) as [Portrait, Portrait];
  network = new FaceCover(await openSession('face_cover'));
});

/** Returns a portrait with a finger of its own skin's colour beside the middle of the mouth, and its pixels. */
function pointedAt({ picture, face }: Portrait): Portrait & { finger: number[] } {
  const { width } = picture;
  const data = picture.data.slice();
  const at = (index: number, axis: number): number => Math.round(face.points[index * 3 + axis] as number);
  const skin = data.slice((at(50, 1) * width + at(50, 0)) * 3, (at(50, 1) * width + at(50, 0)) * 3 + 3);
  const [left, right] = [at(0, 0), at(291, 0)];
  const finger: number[] = [];
  for (let y = at(2, 1); y < at(152, 1) + 0.3 * face.width; y++) {
    for (let x = left; x < right; x++) {
      // Rounded like a cylinder: lit in the middle, dark at the sides.
      const across = (2 * (x - left)) / (right - left) - 1;
      const light = 0.55 + 0.45 * Math.sqrt(1 - across * across);
      for (let c = 0; c < 3; c++) data[(y * width + x) * 3 + c] = (skin[c] as number) * light;
      finger.push(y * width + x);
    }
  }
  return { picture: { ...picture, data }, face, finger };
}

function keptShare(
  { picture, face, finger }: ReturnType<typeof pointedAt>,
  cover: Plane | undefined,
): number {
  const result = { ...picture, data: picture.data.slice() };
  swapFace(result, face, prepareSource(source.picture, source.face, face.width), { cover });
  const kept = finger.filter(
    (i) => Math.abs((result.data[i * 3 + 1] as number) - (picture.data[i * 3 + 1] as number)) < 12,
  );
  return kept.length / finger.length;
}

describe('a finger in front of half of the mouth', () => {
  it('stays as it is', async () => {
    const pointed = pointedAt(target);
    const cover = await network.of(cropsOf(pointed.picture), pointed.face);
    expect(keptShare(pointed, cover)).toBeGreaterThan(0.93);
    expect(keptShare(pointed, undefined)).toBeLessThan(0.9);
  });

  it('changes nothing at the eyes', async () => {
    const pointed = pointedAt(target);
    const prepared = prepareSource(source.picture, source.face, pointed.face.width);
    const cover = await network.of(cropsOf(pointed.picture), pointed.face);
    const { right, left } = planSwap(pointed.picture, pointed.face, prepared, { cover }).skin.features;
    expect(Math.min(right, left)).toBeGreaterThan(0.9);
  });
});
