import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { beforeAll, describe, expect, it } from 'vitest';
import { calmRedEyes } from './red-eyes.ts';

let portrait: Portrait;
/** Has red lids in the shade of a frame. */
let admiral: Portrait;

beforeAll(async () => {
  [portrait, admiral] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

describe('red eyes', () => {
  it('become dark, and nothing else changes', () => {
    const { picture, face } = portrait;
    const red = { ...picture, data: picture.data.slice() };
    const pupils = new Set<number>();
    for (const lids of [
      [159, 145],
      [386, 374],
    ] as const) {
      const [x, y] = [0, 1].map((axis) =>
        Math.round(lids.reduce((sum, i) => sum + (face.points[i * 3 + axis] as number) / 2, 0)),
      ) as [number, number];
      const radius = Math.max(2, Math.round(0.016 * face.width));
      for (let dy = -radius; dy <= radius; dy++)
        for (let dx = -radius; dx <= radius; dx++)
          if (Math.hypot(dx, dy) <= radius) {
            red.data.set([225, 45, 40], ((y + dy) * picture.width + x + dx) * 3);
            pupils.add((y + dy) * picture.width + x + dx);
          }
    }
    const before = red.data.slice();
    calmRedEyes(red, face.points);
    for (const i of pupils) expect(Math.max(...red.data.subarray(i * 3, i * 3 + 3))).toBeLessThan(60);
    const stray = Array.from({ length: red.data.length / 3 }, (_, i) => i).filter(
      (i) => !pupils.has(i) && [0, 1, 2].some((c) => red.data[i * 3 + c] !== before[i * 3 + c]),
    );
    expect(stray).toEqual([]);
  });

  it('are not found where there are none', () => {
    for (const { picture, face } of [portrait, admiral]) {
      const same = { ...picture, data: picture.data.slice() };
      calmRedEyes(same, face.points);
      expect(Buffer.from(same.data).equals(Buffer.from(picture.data))).toBe(true);
    }
  });
});
