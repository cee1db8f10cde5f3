import { expect, it } from 'vitest';
import { seededRandom } from '../random.ts';
import { type BytePlane, drawTexture, drawTextures, sampleByte, sharpByte } from './raster.ts';

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

/** Returns the mean difference of a picture from the middle of its range, away from its border. */
function contrast({ data }: BytePlane): number {
  let sum = 0;
  for (let y = 6; y < SIDE - 6; y++)
    for (let x = 6; x < SIDE - 6; x++) sum += Math.abs((data[y * SIDE + x] as number) - 130);
  return sum / (SIDE - 12) ** 2;
}

it('shows a texture that does not move as it is', () => {
  const target = filled(() => 0);
  drawTexture(target, texture, moved(0));
  for (let y = LOW; y < HIGH; y++) {
    const row = (plane: BytePlane) => plane.data.subarray(y * SIDE + LOW, y * SIDE + HIGH);
    expect(row(target)).toEqual(row(texture));
  }
});

it('keeps more of the contrast of a texture between its pixels than a mean of four does', () => {
  const [sharp, soft] = [filled(() => 0), filled(() => 0)];
  drawTexture(sharp, texture, moved(0.5));
  drawTextures([soft], [texture], moved(0.5));
  expect(contrast(sharp)).toBeGreaterThan(1.12 * contrast(soft));
  // Single places are read alike.
  for (const [x, y] of [
    [12, 9],
    [20, 17],
  ] as const) {
    expect(Math.abs(sharpByte(texture, x + 1, y + 1) - (sharp.data[y * SIDE + x] as number))).toBeLessThan(1);
    expect(Math.abs(sampleByte(texture, x + 1, y + 1) - (soft.data[y * SIDE + x] as number))).toBeLessThan(1);
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
