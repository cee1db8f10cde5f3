import { emptyMap, type WarpMap } from '@semblance/vision/plane/warp-map';
import { describe, expect, it } from 'vitest';
import { foldsOf, turnedAway } from './turned-away.ts';

const SIZE = 100;

/** Returns a map whose columns show the given columns of the source. */
function map(column: (x: number) => number): WarpMap {
  const out = emptyMap(SIZE, SIZE);
  for (let y = 5; y < SIZE - 5; y++) {
    for (let x = 5; x < SIZE - 5; x++) {
      const i = y * SIZE + x;
      out.x.data[i] = column(x);
      out.y.data[i] = y;
      out.covered.data[i] = 1;
    }
  }
  return out;
}

const middle = (x: number): number => 50 * SIZE + x;

describe('a side that a source turns away', () => {
  it('is where few of its pixels come to lie on many', () => {
    const away = turnedAway(
      map((x) => (x < 70 ? x : 70 + (x - 70) / 6)),
      SIZE,
    );
    expect(away.data[middle(85)]).toBeGreaterThan(0.95);
    expect(away.data[middle(40)]).toBe(0);
  });

  it('is none on a face seen like the target, of whatever size, or turned a little', () => {
    for (const column of [
      (x: number): number => x,
      (x: number): number => 8 * x,
      (x: number): number => x / 8,
      (x: number): number => (x < 70 ? x : 70 + (x - 70) / 2),
    ]) {
      expect(Math.max(...turnedAway(map(column), SIZE).data)).toBe(0);
    }
  });

  it('is none where nothing is known', () => {
    expect(Math.max(...turnedAway(emptyMap(SIZE, SIZE), SIZE).data)).toBe(0);
  });
});

describe('a fold', () => {
  it('is where neighbours show places far apart, and nowhere on an even map', () => {
    const folds = foldsOf(
      map((x) => (x < 40 ? x : x + 20)),
      1,
    );
    expect(Math.min(folds.data[middle(39)] as number, folds.data[middle(40)] as number)).toBeGreaterThan(
      0.85,
    );
    expect(Math.max(folds.data[middle(30)] as number, folds.data[middle(50)] as number)).toBe(0);
    expect(
      Math.max(
        ...foldsOf(
          map((x) => 2 * x),
          1,
        ).data,
      ),
    ).toBe(0);
  });
});
