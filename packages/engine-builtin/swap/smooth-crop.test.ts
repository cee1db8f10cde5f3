import type { Picture } from '@semblance/engine-api/picture';
import { expect, it } from 'vitest';
import { cropSmooth } from './smooth-crop.ts';

/** A picture of black and white columns, each one pixel wide. */
function stripes(size: number): Picture {
  const data = new Uint8Array(size * size * 3);
  for (let i = 0; i < size * size; i++) data.fill(i % 2 ? 255 : 0, i * 3, i * 3 + 3);
  return { width: size, height: size, channels: 3, data };
}

/** Returns the largest difference between neighbours of a row in the middle. */
function steps(scale: number): number {
  const size = 40;
  const { data } = cropSmooth(stripes(100), { originX: 5, originY: 5, angle: 0, scale }, size);
  let most = 0;
  for (let x = 1; x < size; x++) {
    const i = (20 * size + x) * 3;
    most = Math.max(most, Math.abs((data[i] as number) - (data[i - 3] as number)));
  }
  return most;
}

it('lines thinner than a pixel of the patch become even instead of steps', () => {
  for (const scale of [1.2, 1.3, 1.5]) expect(steps(scale)).toBeLessThan(110);
});

it('a patch as fine as its picture keeps its lines', () => {
  expect(steps(1)).toBe(255);
});
