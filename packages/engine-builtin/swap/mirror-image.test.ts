import type { RgbImage } from '@semblance/vision/picture';
import { plane } from '@semblance/vision/plane/plane';
import { emptyMap } from '@semblance/vision/plane/warp-map';
import { expect, it } from 'vitest';
import { mirrorImage, showOtherSide } from './mirror-image.ts';

const SIZE = 40;
const FEATURE = 30;

/** Returns an image whose colour depends on the column, with equal channels. */
function image(colour: (x: number) => number): RgbImage {
  const data = Float32Array.from({ length: SIZE * SIZE * 3 }, (_, i) => colour(Math.floor(i / 3) % SIZE));
  return { width: SIZE, height: SIZE, data };
}

it('shows the other side where this one is hidden, as dark as the light is here, and nothing else', () => {
  // The left half is half as bright. A dark stripe on the right at column 30 has its mirror image at column 9.
  const skin = image((x) => (x < 20 ? 80 : 160));
  const face = image((x) => (x < 20 ? 80 : 160) * (x === FEATURE ? 0.25 : 1));
  const before = face.data.slice();
  const map = emptyMap(SIZE, SIZE);
  const share = plane(SIZE, SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) {
    const x = i % SIZE;
    map.x.data[i] = SIZE - x - 0.5;
    map.y.data[i] = Math.floor(i / SIZE) + 0.5;
    map.covered.data[i] = 1;
    share.data[i] = x < 16 ? 1 : 0;
  }
  showOtherSide(face, mirrorImage(share, map, skin, SIZE), 1);
  const at = (x: number): number => face.data[(20 * SIZE + x) * 3] as number;
  expect(at(SIZE - 1 - FEATURE) / 20).toBeCloseTo(1, 1);
  expect(at(5) / 80).toBeCloseTo(1, 1);
  for (let i = 0; i < before.length; i++)
    if (Math.floor(i / 3) % SIZE >= 17) expect(face.data[i]).toBe(before[i]);
});
