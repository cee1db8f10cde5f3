import { plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { reflect } from './reflect.ts';

const [width, height] = [80, 40];

/** Hides everything to the right of `border`. */
function right(border: number) {
  const hidden = plane(width, height);
  for (let i = 0; i < hidden.data.length; i++) hidden.data[i] = i % width >= border ? 1 : 0;
  return hidden;
}

describe('a reflection', () => {
  it('mirrors what is seen at the border, straight across it', () => {
    const { x, y, share } = reflect(right(40), [12, 24]);
    for (const depth of [4, 7, 10]) {
      const i = 20 * width + 39 + depth;
      // From `depth` behind the last visible place to the same distance before it.
      expect(x.data[i]).toBeCloseTo(-2 * depth, 1);
      expect(y.data[i]).toBeCloseTo(0, 5);
      expect(share.data[i]).toBeGreaterThan(0.95);
    }
  });

  it('shows what is seen as it is, and gives up far behind the border', () => {
    const { x, share } = reflect(right(40), [6, 12]);
    expect(x.data[20 * width + 20]).toBe(0);
    expect(share.data[20 * width + 20]).toBeCloseTo(1, 5);
    expect(share.data[20 * width + 39 + 20]).toBeLessThan(0.01);
  });

  it('reaches less far where there is little to mirror', () => {
    const { x, share } = reflect(right(10), [20, 30]);
    const i = 20 * width + 9 + 14;
    expect(share.data[i]).toBeGreaterThan(0.9);
    // 14 places before the border would lie outside the picture.
    expect((i % width) + (x.data[i] as number)).toBeGreaterThanOrEqual(0);
    expect((i % width) + (x.data[i] as number)).toBeLessThan(10);
  });

  it('trusts nothing where nothing is seen', () => {
    const { share } = reflect(right(0), [6, 12]);
    expect(Math.max(...share.data)).toBe(0);
  });
});
