import { expect, it } from 'vitest';
import { boxPasses } from './box-passes.ts';

const WIDTH = 13;
const HEIGHT = 7;

/** Returns the mean of the square around a pixel by definition; the edge repeats. */
function meanAround(data: Float32Array, x: number, y: number, radius: number): number {
  let sum = 0;
  for (let dy = -radius; dy <= radius; dy++) {
    for (let dx = -radius; dx <= radius; dx++) {
      const sx = Math.min(WIDTH - 1, Math.max(0, x + dx));
      const sy = Math.min(HEIGHT - 1, Math.max(0, y + dy));
      sum += data[sy * WIDTH + sx] as number;
    }
  }
  return sum / (2 * radius + 1) ** 2;
}

it.each([1, 2, 3, 6, 20])(
  'gives each pixel the mean of its surroundings, the edge repeating: radius %i',
  (radius) => {
    const before = Float32Array.from({ length: WIDTH * HEIGHT }, (_, i) => (i * 37) % 101);
    const after = before.slice();
    boxPasses(after, WIDTH, HEIGHT, radius);
    for (let y = 0; y < HEIGHT; y++) {
      for (let x = 0; x < WIDTH; x++)
        expect(after[y * WIDTH + x]).toBeCloseTo(meanAround(before, x, y, radius), 3);
    }
  },
);

it('leaves what is even as it is, and does a single row or column', () => {
  const even = new Float32Array(WIDTH * HEIGHT).fill(5);
  boxPasses(even, WIDTH, HEIGHT, 4);
  for (const value of even) expect(value).toBeCloseTo(5, 5);
  for (const [width, height] of [
    [4, 1],
    [1, 4],
  ] as const) {
    const line = Float32Array.of(0, 3, 6, 9);
    boxPasses(line, width, height, 1);
    expect([...line].map((value) => Math.round(value * 1000) / 1000)).toEqual([1, 3, 6, 8]);
  }
});
