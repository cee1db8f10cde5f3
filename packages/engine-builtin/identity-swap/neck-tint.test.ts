import { plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { planesOf } from '../animate/yuv.ts';
import type { FaceLight } from './head-light.ts';
import { neckSkin, type Skin, tintNeck } from './neck-tint.ts';

const [W, H] = [200, 240];
const SPOT = { x: 100, y: 60, iod: 30, angle: Math.PI / 2 };
const CHIN = 1.75;

it('gives the bare neck the complexion of the new head, not the clothes', () => {
  const planes = planesOf(new Uint8Array((W * H * 3) / 2), W, H);
  const skin: FaceLight = { y: 170, u: 112, v: 150, right: 0, down: 0 };
  const dark: FaceLight = { y: 90, u: 116, v: 146, right: 0, down: 0 };
  planes.y.data.fill(150);
  planes.u.data.fill(skin.u);
  planes.v.data.fill(skin.v);
  // A red scarf lies on one side.
  for (let y = 0; y < H; y++) {
    for (let x = 110; x < W; x++) {
      planes.y.data[y * W + x] = 90;
      planes.u.data[(y >> 1) * (W / 2) + (x >> 1)] = 110;
      planes.v.data[(y >> 1) * (W / 2) + (x >> 1)] = 200;
    }
  }
  tintNeck(planes, plane(W / 2, H / 2), { from: skin, to: dark }, SPOT, CHIN);
  const row = Math.round(SPOT.y + (CHIN + 0.6) * SPOT.iod);
  const chroma = (row >> 1) * (W / 2) + 48;
  expect(planes.y.data[row * W + 97]).toBeLessThan(100);
  expect(planes.u.data[chroma]).toBe(dark.u);
  expect(planes.v.data[chroma]).toBe(dark.v);
  expect(planes.y.data[row * W + 120]).toBe(90);
  expect(planes.v.data[chroma + 12]).toBe(200);
  // The forehead lies under the head.
  expect(planes.y.data[40 * W + 97]).toBe(150);
});

it('tints a blotched neck as a whole', () => {
  const planes = planesOf(new Uint8Array((W * H * 3) / 2), W, H);
  const skin: FaceLight = { y: 170, u: 112, v: 150, right: 0, down: 0 };
  const dark: FaceLight = { y: 90, u: 116, v: 146, right: 0, down: 0 };
  planes.u.data.fill(skin.u);
  planes.y.data.fill(160);
  // Every few pixels the skin is redder, as at the edge of a collar.
  for (let y = 0; y < H / 2; y++) {
    for (let x = 0; x < W / 2; x++) planes.v.data[y * (W / 2) + x] = skin.v + ((x >> 1) % 3 === 0 ? 17 : 0);
  }
  tintNeck(planes, plane(W / 2, H / 2), { from: skin, to: dark }, SPOT, CHIN);
  const row = Math.round(SPOT.y + (CHIN + 0.6) * SPOT.iod);
  const line = planes.y.data.subarray(row * W + 85, row * W + 115);
  expect(Math.max(...line)).toBeLessThan(100);
});

/** Fills all of a frame with one colour. */
function frameOf({ y, u, v }: Skin) {
  const planes = planesOf(new Uint8Array((W * H * 3) / 2), W, H);
  planes.y.data.fill(y);
  planes.u.data.fill(u);
  planes.v.data.fill(v);
  return planes;
}

const PERSON = plane(W / 2, H / 2);
const RED_FACE: Skin = { y: 150, u: 112, v: 158 };
const PALE_NECK: Skin = { y: 175, u: 118, v: 140 };
const HEAD: Skin = { y: 110, u: 114, v: 150 };

describe('a neck that is paler than its face', () => {
  it('is seen as it is', () => {
    expect(neckSkin(frameOf(PALE_NECK), PERSON, RED_FACE, SPOT, CHIN)).toEqual(PALE_NECK);
  });

  it('fits the new head nearly as well as a neck of the colour of its face', () => {
    const frame = frameOf(PALE_NECK);
    const neck = neckSkin(frame, PERSON, RED_FACE, SPOT, CHIN);
    tintNeck(frame, PERSON, { from: RED_FACE, neck, to: HEAD }, SPOT, CHIN);
    const row = Math.round(SPOT.y + (CHIN + 0.6) * SPOT.iod);
    const chroma = (row >> 1) * (W / 2) + 48;
    // No neck is lighter than its face, and it keeps a little of its own colour.
    expect(frame.y.data[row * W + 97]).toBe(HEAD.y);
    expect(frame.u.data[chroma]).toBe(HEAD.u + 2);
    expect(frame.v.data[chroma]).toBe(HEAD.v - 2);
  });
});

it.each([
  ['a white collar', { y: 220, u: 127, v: 129 }],
  ['a red scarf', { y: 90, u: 110, v: 210 }],
  ['a blue shirt', { y: 100, u: 150, v: 112 }],
  ['a black pullover', { y: 24, u: 126, v: 131 }],
])('finds no neck under %s', (_name, colour) => {
  expect(neckSkin(frameOf(colour), PERSON, RED_FACE, SPOT, CHIN)).toBeUndefined();
});

it('finds no neck where the person is not', () => {
  const away = plane(W / 2, H / 2, 5);
  expect(neckSkin(frameOf(PALE_NECK), away, RED_FACE, SPOT, CHIN)).toBeUndefined();
});
