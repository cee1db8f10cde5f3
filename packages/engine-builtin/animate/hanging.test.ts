import { POINTS } from '@semblance/vision/face-mesh';
import type { RgbImage } from '@semblance/vision/picture';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import type { FaceFrame } from './face-frame.ts';
import { withHanging } from './hanging.ts';

const [WIDTH, HEIGHT] = [200, 200];
const IOD = 28;
const EYES = { x: 100, y: 80 };
/** The left lobe, in the picture, and the middle of what hangs from it. */
const LOBE = { x: EYES.x + 1.1 * IOD, y: EYES.y + 0.7 * IOD };
const HOOP = { x: LOBE.x + 0.08 * IOD, y: LOBE.y + 0.25 * IOD, radius: 0.25 * IOD };

const FRAME = {
  axes: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  iod: IOD,
  origin: [EYES.x, EYES.y, 0],
} as unknown as FaceFrame;

/** Draws a head before a background with something in front of it. */
function scene(
  background: (x: number, y: number) => number,
  beside: (x: number, y: number) => boolean,
): { image: RgbImage; matte: Plane; drawn: number[]; points: Float32Array } {
  const data = new Float32Array(WIDTH * HEIGHT * 3);
  const matte = plane(WIDTH, HEIGHT);
  const drawn: number[] = [];
  for (let i = 0; i < matte.data.length; i++) {
    const [x, y] = [(i % WIDTH) + 0.5, Math.floor(i / WIDTH) + 0.5];
    const head = Math.hypot((x - EYES.x) / (1.15 * IOD), (y - EYES.y) / (1.9 * IOD)) < 1;
    if (head) matte.data[i] = 1;
    const thing = !head && beside(x, y);
    if (thing) drawn.push(i);
    data.fill(head ? 90 : thing ? 230 : background(x, y), i * 3, i * 3 + 3);
  }
  const points = new Float32Array(POINTS * 3);
  points.set([LOBE.x, LOBE.y, 0], 361 * 3);
  points.set([2 * EYES.x - LOBE.x, LOBE.y, 0], 132 * 3);
  return { image: { width: WIDTH, height: HEIGHT, data }, matte, drawn, points };
}

const ring = (x: number, y: number): boolean =>
  Math.abs(Math.hypot(x - HOOP.x, y - HOOP.y) - HOOP.radius) < 1.5;

/** Returns how much of what was drawn, and how much else, was added to the person. */
function added({ image, matte, drawn, points }: ReturnType<typeof scene>): { drawn: number; else: number } {
  const { data } = withHanging(image, matte, { points, frame: FRAME });
  const things = new Set(drawn);
  let [found, other] = [0, 0];
  for (let i = 0; i < data.length; i++) {
    if (data[i] === matte.data[i]) continue;
    if (things.has(i)) found++;
    else other++;
  }
  return { drawn: found / Math.max(1, drawn.length), else: other };
}

describe('what hangs from an ear', () => {
  const even = (x: number, y: number): number => 120 + 0.1 * x + 0.05 * y;

  it('belongs to the person before an even background, as a hoop does', () => {
    const hoop = added(scene(even, ring));
    expect(hoop.drawn).toBeGreaterThan(0.95);
    expect(hoop.else).toBeLessThan(5);
  });

  it('is nothing where nothing hangs, or where what is there does not touch the head', () => {
    expect(added(scene(even, () => false))).toEqual({ drawn: 0, else: 0 });
    const apart = (x: number, y: number): boolean => Math.hypot(x - HOOP.x - 8, y - HOOP.y) < 3;
    expect(added(scene(even, apart))).toEqual({ drawn: 0, else: 0 });
  });

  it('is no pole that goes on beyond, and nothing before an uneven background', () => {
    const pole = (_: number, y: number): boolean => Math.abs(y - HOOP.y) < 2;
    expect(added(scene(even, pole)).drawn).toBe(0);
    const stripes = (x: number): number => (Math.floor(x / 6) % 2 ? 60 : 160);
    expect(added(scene(stripes, ring))).toEqual({ drawn: 0, else: 0 });
  });
});
