import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { wearsGlasses } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

const SIZE = 100;

function box(left: number, top: number, right: number, bottom: number): Plane {
  const out = plane(SIZE, SIZE);
  fillPolygon(out, [left, top, right, top, right, bottom, left, bottom]);
  return out;
}

const crossed = [box(45, 40, 55, 50), box(10, 40, 25, 50), box(75, 40, 90, 50)] as const;
const zones = { noseRoot: crossed[0], rightTemple: crossed[1], leftTemple: crossed[2] } as FaceZones;

/**
 * Returns an unlikeness plane in which every `every`-th pixel, of the whole face or of the frame's zones, is unlike
 * skin.
 */
function unlike(every: number, where: readonly Plane[]): Plane {
  const out = plane(SIZE, SIZE);
  for (let i = 0; i < out.data.length; i++) {
    if (i % every === 0 && where.some(({ data }) => data[i])) out.data[i] = 2;
  }
  return out;
}

describe('glasses', () => {
  const skin = box(0, 0, SIZE, SIZE);

  it('are what is unlike skin at the root of the nose and at both temples', () => {
    expect(wearsGlasses(zones, unlike(3, crossed), skin)).toBe(true);
    expect(wearsGlasses(zones, unlike(3, crossed.slice(0, 2)), skin)).toBe(false);
    expect(wearsGlasses(zones, unlike(3, crossed.slice(1)), skin)).toBe(false);
  });

  it('may be thin and clear on a face that is a little unlike itself', () => {
    const [face, frame] = [unlike(6, [skin]), unlike(7, crossed)];
    const both = { ...face, data: face.data.map((value, i) => Math.max(value, frame.data[i] as number)) };
    expect(wearsGlasses(zones, both, skin)).toBe(true);
  });

  it('are not what is unlike skin all over the face: noise in the dark, cracks of a painting', () => {
    for (const every of [2, 3, 5, 7]) expect(wearsGlasses(zones, unlike(every, [skin]), skin)).toBe(false);
  });
});
