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

  it('keep their colour in a blink: no lids are drawn while an iris is seen', () => {
    const [ajar, blind] = [new Eyelids(), new Eyelids()];
    for (const eyelids of [ajar, blind]) eyelids.closed([0.3, 0.3], [1, 1]);
    expect(ajar.closed([0.22, 0.22], [1, 1])).toEqual([0, 0]);
    expect(blind.closed([0.22, 0.22], [0, 0])[0]).toBeGreaterThan(0.9);
    expect(ajar.closed([0.18, 0.18], [1, 1])).toEqual([1, 1]);
  });
});
