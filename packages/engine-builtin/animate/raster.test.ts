import { expect, it } from 'vitest';
import { seededRandom } from '../random.ts';
import { type BytePlane, drawTexture } from './raster.ts';

const SIDE = 32;

const filled = (value: (x: number, y: number) => number): BytePlane => ({
  width: SIDE,
  height: SIDE,
  data: Uint8Array.from({ length: SIDE * SIDE }, (_, i) => value(i % SIDE, Math.floor(i / SIDE))),
});
const random = seededRandom('texture');
const texture = filled(() => 90 + 80 * random());

const [LOW, HIGH] = [3, SIDE - 3];
const SQUARE = Float32Array.of(LOW, LOW, HIGH, LOW, LOW, HIGH, HIGH, HIGH);
/** Returns two triangles over nearly all of a square that show the texture moved by some pixels. */
const moved = (by: number) => ({
  from: SQUARE.map((value) => value + by),
  to: SQUARE,
  triangles: Uint16Array.of(0, 2, 1, 1, 2, 3),
  scale: 1,
});

it('shows a texture that does not move as it is', () => {
  const target = filled(() => 0);
  drawTexture(target, texture, moved(0));
  for (let y = LOW; y < HIGH; y++) {
    const row = (plane: BytePlane) => plane.data.subarray(y * SIDE + LOW, y * SIDE + HIGH);
    expect(row(target)).toEqual(row(texture));
  }
});

it('stays within a byte beside the hardest edge, under any opacity', () => {
  const edge = filled((x) => (x < 16 ? 0 : 255));
  const target = filled(() => 255);
  drawTexture(target, edge, moved(0.4));
  for (let x = LOW; x < 14; x++) expect(target.data[8 * SIDE + x]).toBe(0);
  for (let x = 18; x < 28; x++) expect(target.data[8 * SIDE + x]).toBe(255);
  const half = filled(() => 0);
  drawTexture(
    half,
    edge,
    moved(0.4),
    filled(() => 128),
  );
  expect(half.data[8 * SIDE + 5]).toBe(0);
  expect(Math.abs((half.data[8 * SIDE + 25] as number) - 128)).toBeLessThanOrEqual(1);
});
