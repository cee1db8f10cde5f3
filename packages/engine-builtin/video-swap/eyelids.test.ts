import { describe, expect, it } from 'vitest';
import { Eyelids, type Openness, opennessOf } from './eyelids.ts';

const both = (open: number): Openness => [open, open];

/** Returns how far the right eye is closed in each frame. */
function closings(eyelids: Eyelids, openness: readonly number[]): number[] {
  return openness.map((open) => eyelids.closed(both(open))[0]);
}

describe('eyelids', () => {
  it('close in the very frame of a blink, and are open in the next', () => {
    const blink = [0.32, 0.31, 0.23, 0.2, 0.2, 0.26, 0.3, 0.31];
    expect(closings(new Eyelids(), blink)).toEqual([
      0,
      0,
      expect.closeTo(1, 1),
      1,
      1,
      expect.any(Number),
      0,
      0,
    ]);
  });

  it('close while no iris is seen, though the mesh follows half-way, soon after the film begins', () => {
    const eyelids = new Eyelids();
    const open = Array.from({ length: 6 }, () => eyelids.closed(both(0.38), [1, 1]));
    const shut = Array.from({ length: 8 }, () => eyelids.closed(both(0.3), [0, 0]));
    expect(open.flat().every((closed) => closed === 0)).toBe(true);
    expect(Math.min(...shut.flat())).toBeGreaterThan(0.9);
    expect(eyelids.closed(both(0.37), [1, 1])).toEqual([0, 0]);
  });

  it('stay closed for seconds', () => {
    const eyelids = new Eyelids();
    closings(eyelids, Array(25).fill(0.33));
    expect(Math.min(...closings(eyelids, Array(100).fill(0.23)))).toBeGreaterThan(0.9);
    expect(closings(eyelids, [0.32])).toEqual([0]);
  });

  it.each([0.2, 0.27, 0.38])(
    'are open on a face whose eyes usually are %d open, though it squints',
    (usual) => {
      const seen = [1, 0.97, 1.03, 0.88, 0.86, 1.2, 1.25, 1, 0.95].map((share) => share * usual);
      expect(closings(new Eyelids(), seen)).toEqual(seen.map(() => 0));
    },
  );

  it('are known to be closed at the beginning, where what follows is known', () => {
    const first = [0.21, 0.2, 0.22, 0.3, 0.31, 0.32, 0.32, 0.31, 0.32, 0.31];
    expect(closings(new Eyelids(first.map(both)), first).slice(0, 4)).toEqual([
      1,
      1,
      expect.closeTo(1, 1),
      0,
    ]);
  });

  it('are told apart, as a wink is', () => {
    const eyelids = new Eyelids();
    eyelids.closed(both(0.3));
    expect(eyelids.closed([0.2, 0.3])).toEqual([1, 0]);
  });

  it('are measured in space: a head that turns does not close its eyes', () => {
    const points = new Float32Array(468 * 3);
    const put = (index: number, x: number, y: number, turn: number): void => {
      points.set([x * Math.cos(turn), y, x * Math.sin(turn)], index * 3);
    };
    const seen = [0, 0.7].map((turn) => {
      for (const [outer, inner, upper, lower, x] of [
        [33, 133, 159, 145, -3],
        [263, 362, 386, 374, 3],
      ] as const) {
        put(outer, x - 1, 0, turn);
        put(inner, x + 1, 0, turn);
        put(upper, x, -0.3, turn);
        put(lower, x, 0.3, turn);
      }
      return opennessOf(points);
    });
    for (const openness of seen) for (const open of openness) expect(open).toBeCloseTo(0.3, 5);
  });
});
