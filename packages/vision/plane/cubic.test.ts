import { expect, it } from 'vitest';
import { cubicSample } from './cubic.ts';

const WIDTH = 7;
const HEIGHT = 6;

/** Returns two channels: one rises to the right, the other downwards. */
function slopes() {
  const data = new Uint8Array(WIDTH * HEIGHT * 2);
  for (let i = 0; i < WIDTH * HEIGHT; i++) {
    data[i * 2] = 20 + 10 * (i % WIDTH);
    data[i * 2 + 1] = 200 - 15 * Math.floor(i / WIDTH);
  }
  return { data, width: WIDTH, height: HEIGHT, channels: 2 };
}

it('returns samples at their places, and the values of a slope between them', () => {
  const out = new Float32Array(2);
  for (const [x, y] of [
    [3, 2],
    [2.25, 2.5],
    [3.75, 3.125],
  ] as const) {
    cubicSample(slopes(), x, y, out);
    expect(out[0]).toBeCloseTo(20 + 10 * x, 3);
    expect(out[1]).toBeCloseTo(200 - 15 * y, 3);
  }
});

it('keeps a line sharper than its four neighbours are on average', () => {
  const data = Uint8Array.of(0, 0, 255, 255, 0, 0);
  const out = new Float32Array(1);
  cubicSample({ data, width: 6, height: 1, channels: 1 }, 2.5, 0, out);
  expect(out[0]).toBeCloseTo(255 * 1.125, 1);
});

it('repeats the edge', () => {
  const out = new Float32Array(2);
  for (const [x, y, at] of [
    [-5, -1, 0],
    [WIDTH + 3, HEIGHT + 9, WIDTH * HEIGHT - 1],
  ] as const) {
    cubicSample(slopes(), x, y, out);
    expect([...out]).toEqual([...slopes().data.subarray(at * 2, at * 2 + 2)]);
  }
});
