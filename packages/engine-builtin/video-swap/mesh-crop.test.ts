import { regionToRgb, rgbToRegion } from '@semblance/media/yuv';
import { cropRgb } from '@semblance/vision/picture';
import { expect, it } from 'vitest';
import { cropsOfFrame } from './mesh-crop.ts';

const [width, height] = [128, 96];
const all = { x: 0, y: 0, width, height };

it.each([{ range: 'tv', space: 'bt709' } as const, { range: 'pc', space: 'smpte170m' } as const])(
  'crops a frame of $space, range $range, as its RGB is cropped',
  (color) => {
    const rgb = new Float32Array(width * height * 3);
    for (let i = 0; i < width * height; i++) {
      rgb[i * 3] = 128 + 100 * Math.sin((i % width) / 20);
      rgb[i * 3 + 1] = 128 + 60 * Math.cos(i / width / 15);
      rgb[i * 3 + 2] = 60 + (i % width);
    }
    const frame = { width, height, data: new Uint8Array((width * height * 3) / 2) };
    rgbToRegion(frame, all, rgb, color);
    const crop = { scale: 1.6, angle: 0.3, originX: 30, originY: 10 };
    const ours = cropsOfFrame(frame, color)(crop, 40);
    const { data } = cropRgb(regionToRgb(frame, all, color), crop, 40, 40);
    let most = 0;
    for (let i = 0; i < data.length; i++) {
      most = Math.max(most, Math.abs((ours[i] as number) - (data[i] as number)));
    }
    // Colour is not interpolated, brightness is averaged.
    expect(most).toBeLessThan(9);
  },
);
