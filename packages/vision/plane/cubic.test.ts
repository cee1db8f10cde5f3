import { expect, it } from 'vitest';
import { betweenBytes, cubicSample } from './cubic.ts';

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

/** Returns a small picture of noise. */
function noise(width: number, height: number) {
  let state = 7;
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
  return { data: Uint8Array.from({ length: width * height }, () => 40 + 180 * next()), width, height };
}

it('gives bytes at their places, and between them nearly the values of all sixteen', () => {
  const { data, width, height } = noise(24, 20);
  const out = new Float32Array(1);
  const apart = { bent: 0, straight: 0 };
  for (let y = 1; y < height - 3; y++) {
    for (let x = 1; x < width - 3; x++) {
      const at = y * width + x;
      expect(betweenBytes(data, width, at, 0, 0)).toBe((data[at] as number) * 65_536);
      for (const [fx, fy] of [
        [128, 0],
        [0, 128],
        [64, 192],
        [128, 128],
        [255, 255],
      ] as const) {
        const [u, v] = [fx / 256, fy / 256];
        cubicSample({ data, width, height, channels: 1 }, x + u, y + v, out);
        const [a, b, c, d] = [at, at + 1, at + width, at + width + 1].map((i) => data[i] as number) as [
          number,
          number,
          number,
          number,
        ];
        const straight = (a * (1 - u) + b * u) * (1 - v) + (c * (1 - u) + d * u) * v;
        const bent = betweenBytes(data, width, at, fx, fy) / 65_536;
        apart.bent += (bent - (out[0] as number)) ** 2;
        apart.straight += (straight - (out[0] as number)) ** 2;
        // Along a row or a column it is the same curve.
        if (fx === 0 || fy === 0) expect(Math.abs(bent - (out[0] as number))).toBeLessThan(0.2);
      }
    }
  }
  expect(apart.bent).toBeLessThan(0.35 * apart.straight);
});
