import { expect, it } from 'vitest';
import { planesOf } from '../animate/yuv.ts';
import { faceDetail, withDetail } from './head-detail.ts';

const [W, H, IOD] = [240, 240, 60];

/** Returns a head with fine lines on its right, and flat skin on its left. */
function head(contrast: number) {
  const planes = planesOf(new Uint8Array((W * H * 3) / 2), W, H);
  for (let i = 0; i < W * H; i++) {
    const x = i % W;
    planes.y.data[i] = 120 + (x < 100 ? 0 : contrast * Math.sin(x));
  }
  return planes;
}

const deviation = (values: Uint8Array): number => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
};
const lines = ({ y }: ReturnType<typeof head>): number =>
  deviation(y.data.subarray(30 * W + 140, 30 * W + 220));
const skin = ({ y }: ReturnType<typeof head>): number => deviation(y.data.subarray(30 * W, 30 * W + 90));

it('gives a soft head the sharpness and the grain of the face in the video', () => {
  const sharpened = withDetail(head(10), { edges: 3, grain: 1 }, { edges: 9, grain: 1 }, IOD);
  expect(lines(sharpened)).toBeGreaterThan(1.8 * lines(head(10)));
  expect(skin(sharpened)).toBe(0);
  const grainy = withDetail(head(10), { edges: 5, grain: 0 }, { edges: 5, grain: 3 }, IOD);
  expect(skin(grainy)).toBeGreaterThan(3);
  expect(skin(grainy)).toBeLessThan(7);
});

it('softens a head that is sharper than the video, and leaves one as it is that differs little', () => {
  expect(lines(withDetail(head(20), { edges: 9, grain: 1 }, { edges: 3, grain: 1 }, IOD))).toBeLessThan(
    0.6 * lines(head(20)),
  );
  expect(withDetail(head(20), { edges: 9, grain: 2 }, { edges: 9.5, grain: 1 }, IOD).y.data).toEqual(
    head(20).y.data,
  );
});

it('finds edges and noise', () => {
  const on = (x: number): Float32Array =>
    Float32Array.from({ length: 468 * 2 }, (_, i) => (i % 2 ? H / 2 : x));
  const { y } = head(20);
  expect(faceDetail(y, on(170), IOD).edges).toBeGreaterThan(4);
  expect(faceDetail(y, on(50), IOD)).toEqual({ edges: 0, grain: 0 });
  for (let i = 0; i < y.data.length; i++) y.data[i] = 120 + ((i * 7919) % 13) - 6;
  expect(faceDetail(y, on(50), IOD).grain).toBeGreaterThan(1.5);
});
