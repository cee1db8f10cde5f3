import type { Gaze } from '@semblance/vision/gaze';
import { describe, expect, it } from 'vitest';
import { Eyelids } from './eyelids.ts';
import { OwnEyes, SteadyGaze } from './frame-eyes.ts';

const at = (aside: number): Gaze => ({ aside, sure: 1, seen: [1, 1], shut: [0, 0] });

describe('eyes of a video', () => {
  it('hold still against noise and follow a glance at once', () => {
    const gaze = new SteadyGaze();
    gaze.next(at(0));
    const still = Array.from({ length: 40 }, (_, i) => gaze.next(at(i % 2 ? 0.008 : -0.008)).aside);
    expect(Math.max(...still.map(Math.abs))).toBeLessThan(0.003);
    expect(gaze.next(at(0.12)).aside).toBeCloseTo(0.12, 3);
  });

  it('stay where they were while nothing is sure', () => {
    const gaze = new SteadyGaze();
    gaze.next(at(0.1));
    expect(gaze.next({ ...at(-0.2), sure: 0 }).aside).toBe(0.1);
  });

  /** Returns the shares of the own eyes in frames, each with a gaze. */
  const ownIn = (gazes: readonly number[], closed = 0): number[] => {
    const own = new OwnEyes();
    return gazes.map((aside) => own.next(aside, closed));
  };
  const frames = (count: number, aside: number): number[] => Array.from({ length: count }, () => aside);

  it('are those of the source while they look about straight ahead, or are shut', () => {
    expect(Math.max(...ownIn([...frames(20, 0.1), ...frames(20, -0.15)]))).toBe(0);
    expect(Math.max(...ownIn(frames(20, 0.3), 1))).toBe(0);
  });

  it('change smoothly to the own in a glance, and back after a while', () => {
    const shares = ownIn([0, ...frames(10, -0.3), ...frames(200, 0)]);
    expect(shares[8]).toBe(1);
    expect(shares[60]).toBe(1);
    expect(shares.at(-1)).toBe(0);
    const steps = shares.slice(1).map((share, i) => Math.abs(share - (shares[i] as number)));
    expect(Math.max(...steps)).toBeLessThanOrEqual(0.2001);
  });

  it('stay the own where glances are frequent, and are not changed by the noise of a frame', () => {
    const often = ownIn(Array.from({ length: 600 }, (_, i) => (i % 60 < 10 ? 0.3 : 0)));
    expect(Math.min(...often.slice(10))).toBe(1);
    expect(Math.max(...ownIn([0, 0.3, ...frames(20, 0)]))).toBeLessThan(0.4);
  });

  it('are shut where the irises vanish, though the mesh follows the lids only half-way', () => {
    const eyelids = new Eyelids();
    for (let frame = 0; frame < 40; frame++) eyelids.closed([0.3, 0.3], [1, 1]);
    expect(Math.min(...eyelids.closed([0.25, 0.25], [0, 0]))).toBeGreaterThan(0.9);
    expect(eyelids.closed([0.29, 0.29], [0, 0])).toEqual([0, 0]);
  });
});
