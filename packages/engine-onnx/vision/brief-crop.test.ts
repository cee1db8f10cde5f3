import { cropRgb } from '@semblance/vision/picture';
import { expect, it } from 'vitest';
import { briefCrop } from './brief-crop.ts';

const picture = {
  width: 40,
  height: 30,
  channels: 3 as const,
  data: Uint8Array.from({ length: 40 * 30 * 3 }, (_, i) => (i * 7) % 256),
};

it.each([0.4, 1.1, 3])('is the same crop at a scale of %d, whatever was in the memory before', (scale) => {
  const transform = { scale, angle: 0.3, originX: 6, originY: -2 };
  briefCrop(picture, { ...transform, angle: 1 }, 32, 32);
  for (const side of [32, 16])
    expect(briefCrop(picture, transform, side, side)).toEqual(cropRgb(picture, transform, side, side));
});
