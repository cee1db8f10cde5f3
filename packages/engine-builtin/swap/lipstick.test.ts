import { POINTS } from '@semblance/vision/face-mesh';
import type { RgbImage } from '@semblance/vision/picture';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { emptyMap } from '@semblance/vision/plane/warp-map';
import { expect, it } from 'vitest';
import { LIP_RINGS } from './feature-shapes.ts';
import { withoutLipstick } from './lipstick.ts';
import { ALL_SHOWN } from './shown-features.ts';
import type { SkinBlend } from './swap-plan.ts';

const SIZE = 20;
const SKIN = [200, 160, 140];
const BARE = [190, 135, 125];
const PAINT = [200, 30, 60];
const TEETH = [230, 225, 210];

/** A face whose left half is skin, then columns of lips, then teeth. */
function face(lips: readonly number[]): { image: RgbImage; points: Float32Array } {
  const data = new Float32Array(SIZE * SIZE * 3);
  for (let i = 0; i < SIZE * SIZE; i++) {
    const x = i % SIZE;
    data.set(x < 10 ? SKIN : x < 15 ? lips : TEETH, i * 3);
  }
  const points = new Float32Array(POINTS * 2).fill(5);
  for (const index of LIP_RINGS[1] as readonly number[]) points[index * 2] = 12.5;
  return { image: { width: SIZE, height: SIZE, data }, points };
}

/** Returns what is added to the lips and to the teeth of a target inside its mouth, red, green and blue. */
function added(target: readonly number[], source: readonly number[], mouth = 1): number[][] {
  const own = emptyMap(SIZE, SIZE);
  for (let i = 0; i < SIZE * SIZE; i++) {
    own.x.data[i] = (i % SIZE) + 0.5;
    own.y.data[i] = Math.floor(i / SIZE) + 0.5;
    own.covered.data[i] = 1;
  }
  const none = (): Plane => plane(SIZE, SIZE);
  const blend: SkinBlend = {
    share: none(),
    sharpness: 1,
    features: { ...ALL_SHOWN, mouth },
    browsKept: false,
    correction: [none(), none(), none()],
  };
  const inside = plane(SIZE, SIZE, 1);
  const { correction } = withoutLipstick(blend, inside, { target: face(target), source: face(source), own });
  return [12, 17].map((x) => correction.map(({ data }) => data[10 * SIZE + x] as number));
}

it('paint inside the mouth gets the hue of skin and keeps its brightness, teeth stay', () => {
  const [lips, teeth] = added(PAINT, BARE) as [number[], number[]];
  const [r, g, b] = PAINT.map((v, c) => v + (lips[c] as number)) as [number, number, number];
  expect((r - g) / (r + g + b)).toBeCloseTo(40 / 500, 1);
  const luma = (rgb: readonly number[]): number =>
    0.299 * (rgb[0] as number) + 0.587 * (rgb[1] as number) + 0.114 * (rgb[2] as number);
  expect(luma([r, g, b])).toBeCloseTo(luma(PAINT), 0);
  for (const value of teeth) expect(value).toBeCloseTo(0, 5);
});

it('bare lips stay, and painted ones of a source with paint, or of a mouth that is not taken', () => {
  for (const [lips] of [added(BARE, BARE), added(PAINT, PAINT), added(PAINT, BARE, 0)])
    expect(lips?.map((value) => value + 0)).toEqual([0, 0, 0]);
});
