import { NOSE_BASE } from '@semblance/vision/face-regions';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import type { Channels } from './light.ts';
import { noseLight, noseTone } from './nose-tone.ts';

const SIZE = 100;
const SKIN = [200, 150, 130] as const;
const MIDDLE = 50 * SIZE + 50;

/** Mesh points with a nose base that is 40 pixels wide and 20 high. */
const points = new Float32Array(478 * 2);
NOSE_BASE.forEach((index, k) => {
  const angle = (2 * Math.PI * k) / NOSE_BASE.length;
  points.set([50 + 20 * Math.cos(angle), 50 + 10 * Math.sin(angle)], index * 2);
});

/** Draws skin with one nostril whose brightness is a share of the skin's. */
function nose(nostril: number): Channels {
  const out: Channels = [plane(SIZE, SIZE), plane(SIZE, SIZE), plane(SIZE, SIZE)];
  for (let y = 0; y < SIZE; y++)
    for (let x = 0; x < SIZE; x++) {
      const by = Math.hypot(x - 50, y - 50) < 6 ? nostril : 1;
      for (let c = 0; c < 3; c++) (out[c] as Plane).data[y * SIZE + x] = by * (SKIN[c] as number);
    }
  return out;
}

const added = (own: number, lit: number, i: number): number =>
  noseTone(nose(own), nose(lit), points, SIZE)[1].data[i] as number;

describe('noseTone', () => {
  it('brightens nostrils that are much darker than those of the target, but never takes them away', () => {
    // A darkness of 0.48 remains: 1.2 times that of the target; the source has 0.6.
    expect(added(0.6, 0.4, MIDDLE)).toBeCloseTo(150 * (0.6 - 0.48), 0);
    expect(added(0.9, 0.1, MIDDLE)).toBeCloseTo(150 * 0.9 * 0.3, 0);
  });

  it('leaves skin, and nostrils that are no darker, as they are', () => {
    expect(added(0.6, 0.4, MIDDLE + 15)).toBe(0);
    expect(added(0.4, 0.3, MIDDLE)).toBe(0);
    expect(added(0.2, 0.6, MIDDLE)).toBe(0);
  });
});

describe('noseLight', () => {
  /** Returns what is added to a nose that is evenly lit, where that of the target is brighter by some levels. */
  const lightAt = (brighter: number, i: number, hidden = plane(SIZE, SIZE)): number => {
    const lit = nose(1);
    const own = lit.map(({ data, ...size }) => ({
      ...size,
      data: data.map((value) => value + brighter),
    })) as unknown as Channels;
    return noseLight(own, lit, { hidden, points: wholeNose }, SIZE)[1].data[i] as number;
  };
  const wholeNose = points.slice();
  [168, 193, 417, 122, 351, 131, 360, 64, 294, 98, 327, 2].forEach((index, k) => {
    const angle = (2 * Math.PI * k) / 12;
    wholeNose.set([50 + 15 * Math.cos(angle), 50 + 20 * Math.sin(angle)], index * 2);
  });

  it('brightens a nose on which more light falls in the target, and nothing beside it', () => {
    expect(lightAt(40, MIDDLE)).toBeGreaterThan(20);
    expect(lightAt(40, MIDDLE)).toBeLessThan(40);
    expect(lightAt(40, MIDDLE + 30)).toBe(0);
  });

  it('leaves noses that are lit alike or less, and what is hidden, as they are', () => {
    expect(lightAt(8, MIDDLE)).toBe(0);
    expect(lightAt(-40, MIDDLE)).toBe(0);
    expect(lightAt(40, MIDDLE, plane(SIZE, SIZE, 1))).toBe(0);
  });
});
