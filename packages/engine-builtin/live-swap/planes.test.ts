import { regionToRgb, rgbToRegion } from '@semblance/media/yuv';
import { expect, it } from 'vitest';
import { JPEG_COLORS, toFrame, writeBack } from './planes.ts';

const [width, height] = [34, 22];
const all = { x: 0, y: 0, width, height };

/** All corners of the colour cube and the values between them. */
const rgb = (stride: number, rows: number) =>
  Uint8Array.from({ length: stride * rows * 3 }, (_, i) => (i % 11 === 0 ? 255 : (i * 2_654_435_761) >>> 24));
const emptyFrame = () => ({ width, height, data: new Uint8Array((width * height * 3) / 2) });

it.each([
  ['even', width, height],
  ['odd', width + 1, height + 1],
])('pixels of %s sides become the frame that the exact conversion makes', (_what, stride, rows) => {
  const pixels = rgb(stride, rows);
  const [frame, wanted] = [emptyFrame(), emptyFrame()];
  toFrame(pixels, stride, frame);
  const inside = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    inside.set(pixels.subarray(y * stride * 3, (y * stride + width) * 3), y * width * 3);
  }
  rgbToRegion(wanted, all, inside, JPEG_COLORS);
  const apart = frame.data.map((value, i) => Math.abs(value - (wanted.data[i] as number)));
  expect(Math.max(...apart)).toBeLessThanOrEqual(1);
});

it('black, white and pure colours stay within their bytes', () => {
  for (const colour of [
    [0, 0, 0],
    [255, 255, 255],
    [255, 0, 0],
    [0, 0, 255],
  ] as const) {
    const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => colour[i % 3] as number);
    const [frame, wanted] = [emptyFrame(), emptyFrame()];
    toFrame(pixels, width, frame);
    rgbToRegion(wanted, all, pixels, JPEG_COLORS);
    for (const at of [0, width * height, (width * height * 5) / 4])
      expect(Math.abs((frame.data[at] as number) - (wanted.data[at] as number))).toBeLessThanOrEqual(1);
  }
});

it('only what was drawn into is put back, as the exact conversion has it', () => {
  const pixels = rgb(width, height);
  const kept = pixels.slice();
  const frame = emptyFrame();
  toFrame(pixels, width, frame);
  const before = frame.data.slice();
  for (let y = 4; y < 10; y++) frame.data.fill(130, y * width + 6, y * width + 12);
  writeBack(pixels, width, frame, before, { x: 2, y: 2, width: 20, height: 16 });
  const exact = regionToRgb(frame, all, JPEG_COLORS).data;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const drawn = x >= 6 && x < 12 && y >= 4 && y < 10;
      for (let at = (y * width + x) * 3; at < (y * width + x) * 3 + 3; at++) {
        if (drawn) expect(Math.abs((pixels[at] as number) - (exact[at] as number))).toBeLessThanOrEqual(1);
        else expect(pixels[at]).toBe(kept[at]);
      }
    }
  }
});
