import type { Gaze } from '@semblance/vision/gaze';
import { describe, expect, it } from 'vitest';
import { Eyelids } from './eyelids.ts';
import { SteadyGaze } from './frame-eyes.ts';

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

  it('are shut where the irises vanish, though the mesh follows the lids only half-way', () => {
    const eyelids = new Eyelids();
    for (let frame = 0; frame < 40; frame++) eyelids.closed([0.3, 0.3], [1, 1]);
    expect(Math.min(...eyelids.closed([0.25, 0.25], [0, 0]))).toBeGreaterThan(0.9);
    expect(eyelids.closed([0.29, 0.29], [0, 0])).toEqual([0, 0]);
  });
});
