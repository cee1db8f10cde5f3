import { expect, it } from 'vitest';
import { warpLayer } from './warp-layer.ts';

const WIDTH = 40;
const HEIGHT = 30;
const STEP = 4;

/** Returns a slope in both directions. */
function slope(channels: number) {
  const data = Uint8Array.from({ length: WIDTH * HEIGHT * channels }, (_, i) => {
    const [x, y] = [Math.floor(i / channels) % WIDTH, Math.floor(i / channels / WIDTH)];
    return 20 + 3 * x + 2 * y + (i % channels);
  });
  return { data, start: 0, width: WIDTH, height: HEIGHT, channels, pixels: 1 };
}

/** Returns moves of which the nodes of some rows fetch from 1.5 to the right and one below. */
function movesOf(rows: readonly number[]) {
  const [columns, all] = [WIDTH / STEP + 1, HEIGHT / STEP + 1];
  const from = new Float32Array(columns * Math.floor(all) * 2);
  for (const row of rows) for (let i = 0; i < columns; i++) from.set([1.5, 1], (row * columns + i) * 2);
  return { left: 0, top: 0, step: STEP, columns, rows: Math.floor(all), from };
}

it.each([
  { channels: 1, reads: 4 as const },
  { channels: 1, reads: 8 as const },
  { channels: 1, reads: undefined },
  { channels: 3, reads: undefined },
])('fetches samples from their places, and leaves what does not move: %o', ({ channels, reads }) => {
  const before = slope(channels);
  const after = { ...slope(channels), reads };
  warpLayer(after, movesOf([3, 4]));
  const at = (layer: typeof before, x: number, y: number) => layer.data[(y * WIDTH + x) * channels] as number;
  for (let x = 2; x < WIDTH - 4; x++) {
    // 1.5 to the right and one below is 6.5 brighter.
    expect(Math.abs(at(after, x, 14) - at(before, x, 14) - 6.5), `column ${x}`).toBeLessThanOrEqual(0.5);
    // A quarter of the way from a node that does not move to one that does.
    expect(Math.abs(at(after, x, 8) - at(before, x, 8) - 6.5 / 8), `column ${x}`).toBeLessThanOrEqual(0.8);
    for (const y of [3, 7, 20, 28]) expect(at(after, x, y)).toBe(at(before, x, y));
  }
});

it('repeats the edge, and changes nothing where nothing moves', () => {
  const edge = { ...slope(1), reads: 8 as const };
  warpLayer(edge, movesOf([3, 4]));
  const last = 14 * WIDTH + WIDTH - 1;
  expect(Math.abs((edge.data[last] as number) - (slope(1).data[last + WIDTH] as number))).toBeLessThanOrEqual(
    1,
  );
  const still = slope(3);
  warpLayer(still, movesOf([]));
  expect(still.data).toEqual(slope(3).data);
});
