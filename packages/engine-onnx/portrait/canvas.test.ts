import type { Picture } from '@semblance/engine-api/picture';
import { regionToRgb } from '@semblance/media/yuv';
import { type RgbImage, squareCrop, toCrop } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { StillCanvas } from './canvas.ts';

const COLOR = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' } as const;
const SIZE = 512;

const still: Picture = {
  width: 400,
  height: 300,
  channels: 3,
  data: Uint8Array.from({ length: 400 * 300 * 3 }, (_, i) => 60 + (Math.floor(i / 3) % 400) / 4),
};
/** Red grows to the right, green downwards. */
const drawn: RgbImage = {
  width: SIZE,
  height: SIZE,
  data: Float32Array.from({ length: SIZE * SIZE * 3 }, (_, i) => {
    const pixel = Math.floor(i / 3);
    return [(pixel % SIZE) / 4, Math.floor(pixel / SIZE) / 4 + 80, 30][i % 3] as number;
  }),
};

describe('a drawn crop is put into the still', () => {
  it.each([
    ['smaller than it was drawn', 150, 0.3],
    ['larger, and turned', 700, -0.7],
    ['out over the edge of the still', 420, 0],
  ])('%s', (_, side, angle) => {
    const crop = squareCrop({ x: 180, y: 140 }, side, angle, SIZE);
    const canvas = new StillCanvas(still, crop, SIZE, COLOR);
    const { part, crop: within } = canvas.paste(drawn);
    let [inside, outside, worst] = [0, 0, 0];
    const [left, top] = [crop.originX - within.originX, crop.originY - within.originY];
    for (let y = 0; y < part.height; y++) {
      for (let x = 0; x < part.width; x++) {
        const { x: u, y: v } = toCrop(within, x + 0.5, y + 0.5);
        const depth = Math.min(u, v, SIZE - u, SIZE - v) / SIZE;
        const found = [0, 1, 2].map((c) => part.data[(y * part.width + x) * 3 + c] as number);
        const before = still.data[((y + top) * still.width + x + left) * 3] as number;
        if (depth < 0.01) {
          outside++;
          expect(found).toEqual([before, before, before]);
        } else if (depth > 0.14) {
          inside++;
          const wanted = [(u - 0.5) / 4, (v - 0.5) / 4 + 80, 30];
          worst = Math.max(worst, ...wanted.map((value, c) => Math.abs(value - (found[c] as number))));
        }
      }
    }
    expect(inside).toBeGreaterThan(5000);
    if (side < 300) expect(outside).toBeGreaterThan(100);
    expect(worst).toBeLessThan(1.5);

    const rest = canvas.frame(part);
    const whole = regionToRgb({ ...still, data: rest }, { x: 0, y: 0, width: 400, height: 300 }, COLOR);
    const corner = [0, 1, 2].map((c) => whole.data[(299 * 400 + 399) * 3 + c] as number);
    if (side < 400) for (const value of corner) expect(Math.abs(value - 159)).toBeLessThan(3);
    const middle = toCrop(crop, 180.5, 140.5);
    const found = [0, 1, 2].map((c) => whole.data[(140 * 400 + 180) * 3 + c] as number);
    const wanted = [middle.x / 4, middle.y / 4 + 80, 30];
    for (const [c, value] of wanted.entries()) expect(Math.abs(value - (found[c] as number))).toBeLessThan(4);
  });
});
