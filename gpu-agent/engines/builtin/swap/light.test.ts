import { describe, expect, it } from 'vitest';
import { LIGHT, matchLight } from './light.ts';
import { type Plane, plane } from './plane.ts';

const SIZE = 80;

function even(value: number): Plane {
  return plane(SIZE, SIZE, value);
}

/** Strength of the relief in the middle of a face, on a target so much darker or brighter than the source. */
function reliefAt(light: number): number {
  const other = [even(180), even(140), even(120)] as const;
  const own = [even(180 * light), even(140 * light), even(120 * light)] as const;
  const { values } = matchLight({
    ...{ own, other, weight: even(1), edge: even(0), rim: even(0) },
    ...{ faceWidth: SIZE, relief: 1 },
  });
  const at = (Math.floor(values.height / 2) * values.width + Math.floor(values.width / 2)) * values.fields;
  return values.data[at + LIGHT.relief] as number;
}

describe('the light of a swap', () => {
  it("keeps the source's relief under light like its own", () => {
    expect(reliefAt(1)).toBeCloseTo(1, 1);
    expect(reliefAt(0.7)).toBeCloseTo(1, 1);
  });

  it('makes shadows in the dark at most twice as deep as that light makes them', () => {
    for (const light of [0.15, 0.25, 0.4]) {
      expect(reliefAt(light)).toBeGreaterThan(light);
      expect(reliefAt(light)).toBeLessThan(2.1 * light);
    }
  });
});
