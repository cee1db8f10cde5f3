import { describe, expect, it } from 'vitest';
import { type CropSource, POINTS } from './face-mesh.ts';
import { EYES, gazeOf } from './gaze.ts';
import { toPicture } from './picture.ts';

const WIDTH = 60;
const MIDDLES = [
  [100, 100],
  [220, 100],
] as const;
const OPEN = 0.17;

/** Returns a mesh with two eyes in the shape of a lens. */
function mesh(): Float32Array {
  const points = new Float32Array(POINTS * 3);
  EYES.forEach(({ outline, corners }, side) => {
    const [x, y] = MIDDLES[side] as (typeof MIDDLES)[number];
    // From one corner along the lower lid to the other, then back along the upper lid.
    const way = outline[0] === corners[0] ? 1 : -1;
    outline.forEach((index, k) => {
      const angle = Math.PI - (k / outline.length) * 2 * Math.PI;
      const [dx, dy] = [way * 0.5 * WIDTH * Math.cos(angle), OPEN * WIDTH * Math.sin(angle)];
      points.set([x + dx, y + dy, 0], index * 3);
    });
  });
  return points;
}

/** Returns crops of a drawing: skin, and white of the eye with irises aside by a share of the width, or shut lids. */
function drawing(aside: number | 'shut'): CropSource {
  return (crop, size) => {
    const out = new Float32Array(size * size * 3);
    for (let i = 0; i < size * size; i++) {
      const { x, y } = toPicture(crop, (i % size) + 0.5, Math.floor(i / size) + 0.5);
      let colour = [190, 150, 130];
      for (const [mx, my] of MIDDLES) {
        const [u, v] = [(x - mx) / WIDTH, (y - my) / WIDTH];
        const within = (u / 0.5) ** 2 + (v / OPEN) ** 2 < 1;
        if (aside === 'shut') {
          if (Math.abs(u) < 0.5 && Math.abs(v - 0.08) < 0.025) colour = [70, 50, 45];
        } else if (within) colour = Math.hypot(u - aside, v) < 0.195 ? [60, 45, 40] : [225, 220, 215];
      }
      out.set(colour, i * 3);
    }
    return out;
  };
}

describe('gaze', () => {
  it.each([-0.15, -0.07, 0, 0.1, 0.18])('is read where the irises are: %d aside', (aside) => {
    const gaze = gazeOf(drawing(aside), mesh());
    expect(Math.abs(gaze.aside - aside)).toBeLessThan(0.02);
    expect(gaze.sure).toBe(1);
    expect(gaze.shut).toEqual([0, 0]);
  });

  it('is not known of shut eyes, nor of eyes of a few pixels', () => {
    const shut = gazeOf(drawing('shut'), mesh());
    expect(shut.sure).toBe(0);
    expect(Math.min(...shut.shut)).toBeGreaterThan(0.9);
    const small = mesh().map((value) => value / 15);
    expect(gazeOf(drawing(0), small)).toMatchObject({ sure: 0, seen: [0, 0], shut: [0, 0] });
  });
});
