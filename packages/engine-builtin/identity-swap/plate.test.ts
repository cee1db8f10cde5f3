import { room } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { distanceInside, type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { planesOf, rgbToYuv } from '../animate/yuv.ts';
import { BackgroundPlate, type Sight } from './plate.ts';
import { register, standsStill } from './register.ts';

const [W, H] = [320, 180];

/** Returns the room as a lens shows it: without detail finer than a pixel. */
function filmed(camera = { x: 0, y: 0 }): Uint8Array {
  const fine = room(4 * W, 4 * H, camera);
  const out = new Uint8Array(W * H * 3);
  for (let i = 0; i < out.length; i++) {
    const [c, x, y] = [i % 3, Math.floor(i / 3) % W, Math.floor(i / 3 / W)];
    let sum = 0;
    for (let k = 0; k < 16; k++)
      sum += fine[((4 * y + (k >> 2)) * 4 * W + 4 * x + (k & 3)) * 3 + c] as number;
    out[i] = sum / 16;
  }
  return out;
}

function luma(rgb: Uint8Array): Plane {
  const out = plane(W, H);
  for (let i = 0; i < out.data.length; i++) out.data[i] = rgb[i * 3 + 1] as number;
  return out;
}

describe('registration', () => {
  it('finds by how much a camera moved, though the light changed and someone stands in the way', () => {
    const base = luma(filmed());
    const moved = luma(filmed({ x: 4 / H, y: -2 / H }));
    for (let y = 60; y < 180; y++) for (let x = 120; x < 170; x++) moved.data[y * W + x] = 20;
    for (let i = 0; i < moved.data.length; i++) moved.data[i] = (moved.data[i] as number) + 6;
    const { map } = register(base, moved, plane(W, H, 1));
    const [a, b, c, d, e, f] = map;
    // The room moves opposite to the camera.
    expect(a * 160 + b * 90 + c - 160).toBeCloseTo(-4, 0);
    expect(d * 160 + e * 90 + f - 90).toBeCloseTo(2, 0);
    expect(Math.abs(b)).toBeLessThan(0.01);
    expect(standsStill(map, W, H)).toBe(false);
  });

  it('says that a camera which does not move stands still', () => {
    const base = luma(filmed());
    expect(standsStill(register(base, base, plane(W, H, 1)).map, W, H)).toBe(true);
  });
});

/** Returns a black box as a person in front of the room, and the part of the frame that it covers. */
function sight(left: number, camera: { x: number; y: number }): Sight & { data: Uint8Array; inside: Plane } {
  const rgb = filmed(camera);
  const free = plane(W / 2, H / 2, 1);
  for (let y = 40; y < H; y++) {
    for (let x = left; x < left + 50; x++) {
      rgb.fill(0, (y * W + x) * 3, (y * W + x) * 3 + 3);
      free.data[(y >> 1) * (W / 2) + (x >> 1)] = 0;
    }
  }
  const inside = plane(W / 2, H / 2);
  const distance = distanceInside(free, false);
  for (let i = 0; i < inside.data.length; i++) inside.data[i] = (distance.data[i] as number) < 3 ? 1 : 0;
  const data = rgbToYuv(rgb, W, H);
  return { frame: planesOf(data, W, H), distance, near: 3, data, inside };
}

function missOf(data: Uint8Array, empty: Uint8Array, inside: Plane): number {
  const rgb = yuvToRgb(data, W, H);
  let [sum, count] = [0, 0];
  for (let y = 0; y < H; y++) {
    for (let x = 0; x < W; x++) {
      if ((inside.data[(y >> 1) * (W / 2) + (x >> 1)] as number) === 0) continue;
      const i = (y * W + x) * 3 + 1;
      sum += Math.abs((rgb[i] as number) - (empty[i] as number));
      count++;
    }
  }
  return sum / count;
}

function rangeOf(data: Uint8Array): [number, number] {
  return [
    data.reduce((least, value) => Math.min(least, value)),
    data.reduce((most, value) => Math.max(most, value)),
  ];
}

describe('the background plate', () => {
  it.each([
    ['stands', () => ({ x: 0, y: 0 })],
    ['moves', (i: number) => ({ x: (i * 3) / H, y: (i % 2) / H })],
  ])('shows what was behind someone who walked on, where the camera %s', (_what, camera) => {
    const plate = new BackgroundPlate(W, H);
    const look = (i: number) => {
      const seen = sight(20 + 12 * i, camera(i));
      const map = plate.locate(seen);
      if (!map) throw new Error(`frame ${i} was not found on the plate`);
      plate.remember(seen, map);
      return { seen, map };
    };
    const looks = Array.from({ length: 9 }, (_, i) => look(i));
    const { seen, map } = looks[2] as (typeof looks)[number];
    plate.fill(seen.frame, seen.inside, map);
    expect(missOf(seen.data, filmed(camera(2)), seen.inside)).toBeLessThan(6);
  });

  it('has no line of another colour where what it saw ends, though the camera moves', () => {
    const plate = new BackgroundPlate(W, H);
    // The person hardly moves aside, so the middle is never visible.
    for (let i = 0; i < 6; i++) {
      const seen = sight(100 + 4 * i, { x: (i * 1.4) / H, y: (i * 0.6) / H });
      const [usedU, usedV] = [rangeOf(seen.frame.u.data), rangeOf(seen.frame.v.data)];
      const map = plate.locate(seen);
      if (!map) throw new Error(`frame ${i} was not found on the plate`);
      plate.remember(seen, map);
      plate.fill(seen.frame, seen.inside, map);
      const [u, v] = [rangeOf(seen.frame.u.data), rangeOf(seen.frame.v.data)];
      expect(Math.max(usedU[0] - u[0], u[1] - usedU[1], usedV[0] - v[0], v[1] - usedV[1])).toBeLessThan(4);
    }
  });

  it('continues smoothly what it never saw, and forgets what was before a cut', () => {
    const plate = new BackgroundPlate(W, H);
    const grey = { frame: planesOf(rgbToYuv(new Uint8Array(W * H * 3).fill(200), W, H), W, H), near: 3 };
    plate.remember({ ...grey, distance: plane(W / 2, H / 2, 100) }, [1, 0, 0, 0, 1, 0]);
    plate.reset();
    const still = sight(100, { x: 0, y: 0 });
    const map = plate.locate(still);
    if (!map) throw new Error('a first frame lies on its plate');
    plate.remember(still, map);
    plate.fill(still.frame, still.inside, map);
    const miss = missOf(still.data, filmed(), still.inside);
    expect(miss).toBeGreaterThan(1);
    expect(miss).toBeLessThan(40);
    // Nothing of the person remains.
    const rgb = yuvToRgb(still.data, W, H);
    expect(rgb[(120 * W + 125) * 3 + 1]).toBeGreaterThan(90);
  });
});
