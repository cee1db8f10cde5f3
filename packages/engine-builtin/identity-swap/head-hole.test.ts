import { plane } from '@semblance/vision/plane/plane';
import { expect, it } from 'vitest';
import { headHole } from './head-hole.ts';

const [W, H, IOD] = [240, 320, 40];
const SPOT = { x: 120, y: 120, iod: IOD, angle: Math.PI / 2 };
const CHIN = 1.75;

/** @param height of the shoulders */
function hole(keepsHair: boolean, height = 280) {
  const neck = [
    { x: 120, y: height },
    { x: 120, y: 125 },
  ] as const;
  const shoulders = [
    { x: 200, y: height },
    { x: 40, y: height },
  ] as const;
  const out = headHole(plane(W / 2, H / 2), SPOT, { chin: CHIN, neck, shoulders, keepsHair, edge: [2, 5] });
  return (right: number, down: number): number => {
    const [x, y] = [SPOT.x + right * IOD, SPOT.y + down * IOD];
    return out.data[(y >> 1) * (W / 2) + (x >> 1)] as number;
  };
}

it('erases hair, ears and the corners of the jaw, but not the neck and the shoulders', () => {
  const at = hole(false);
  for (const [right, down] of [
    [0, -1.5],
    [1.4, 0],
    [-1.4, 0],
    [1.2, 0.9],
    [-1.2, 0.9],
  ] as const)
    expect(at(right, down), `${right} ${down}`).toBeGreaterThan(0.9);
  for (const [right, down] of [
    [0, CHIN],
    [0.4, 1.2],
    [-0.4, 1.2],
    [2, 1.6],
    [-2, 1.6],
  ] as const)
    expect(at(right, down), `${right} ${down}`).toBe(0);
});

it('leaves the hair to a head that has none', () => {
  const at = hole(true);
  expect(at(0, -1.5)).toBe(0);
  expect(at(1.4, 0.2)).toBeGreaterThan(0.9);
});

it('leaves raised shoulders whole', () => {
  const at = hole(false, SPOT.y + 1.4 * IOD);
  expect(at(1.4, 0)).toBeGreaterThan(0.9);
  for (const right of [1.2, -1.2]) expect(at(right, 0.9)).toBeLessThan(0.05);
});
