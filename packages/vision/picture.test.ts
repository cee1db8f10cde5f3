import type { Picture } from '@semblance/engine-api/picture';
import { expect, it } from 'vitest';
import { cropRgb } from './picture.ts';

const BORDER = 40;

function pattern(width: number, height: number): Picture {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 7919 + (i >> 5) * 31) % 256);
  return { width, height, channels: 3, data };
}

/** Returns the picture with its edge pixels repeated around it. */
function bordered(picture: Picture): Picture {
  const width = picture.width + 2 * BORDER;
  const height = picture.height + 2 * BORDER;
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const sx = Math.min(picture.width - 1, Math.max(0, x - BORDER));
      const sy = Math.min(picture.height - 1, Math.max(0, y - BORDER));
      for (let c = 0; c < 3; c++)
        data[(y * width + x) * 3 + c] = picture.data[(sy * picture.width + sx) * 3 + c] as number;
    }
  }
  return { width, height, channels: 3, data };
}

it.each([
  { angle: 0, originX: 20.3, originY: 10.4 },
  { angle: 0.3, originX: 60, originY: 5 },
  { angle: 0, originX: -10.2, originY: -10.3 },
  { angle: -0.4, originX: 100, originY: 100 },
])('shrinks a part of a picture by averaging, its edge repeated beyond it: %o', (place) => {
  const picture = pattern(160, 140);
  const transform = { scale: 4, ...place };
  const { data } = cropRgb(picture, transform, 16, 16);
  const shifted = { ...transform, originX: place.originX + BORDER, originY: place.originY + BORDER };
  const expected = cropRgb(bordered(picture), shifted, 16, 16);
  expect(Math.max(...data.map((value, i) => Math.abs(value - (expected.data[i] as number))))).toBeLessThan(
    1e-3,
  );
});
