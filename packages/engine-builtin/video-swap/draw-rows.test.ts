import { emptyMap } from '@semblance/vision/plane/warp-map';
import { describe, expect, it } from 'vitest';
import { copyOf } from './before.ts';
import { drawChroma, drawLuma } from './draw-rows.ts';
import { PlaceRow, spansOf } from './grid-map.ts';
import type { Layer } from './row-pieces.ts';
import { blendTextures, emptyTexture, packLuma, type SizedTexture } from './texture-data.ts';

const [width, height, size] = [48, 36, 64];
const SCALE = 3;

const chromaPair = (lower: number, upper: number): number => lower | (upper << 16);

/** Brightness and share of a texture: waves over a slope. */
const bright = (x: number, y: number): number => Math.round(100 + 60 * Math.sin(x / 5) + y / 2);
const share = (x: number): number => Math.min(255, Math.max(0, (x - 10) * 16));

function texture(): SizedTexture {
  const made = emptyTexture(size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      made.luma[y * size + x] = packLuma((bright(x, y) * share(x)) / 255, share(x) / 255);
    }
  }
  const half = size >> 1;
  for (let i = 0; i < half * half; i++) {
    made.chroma[i * 2] = chromaPair(90, 170);
    made.chroma[i * 2 + 1] = chromaPair(255, 0);
  }
  return { ...made, size, box: { x: 0, y: 0, width: size, height: size } };
}

/** Returns a layer whose mesh shows `place` of the texture at pixel x, y of the frame. */
function layer(place: (x: number, y: number) => [number, number], more: Partial<Layer> = {}): Layer {
  const grid = { width: width / SCALE + 1, height: height / SCALE + 1 };
  const map = emptyMap(grid.width, grid.height);
  for (let y = 0; y < grid.height; y++) {
    for (let x = 0; x < grid.width; x++) {
      const i = y * grid.width + x;
      const [px, py] = place((x + 0.5) * SCALE, (y + 0.5) * SCALE);
      map.x.data[i] = px;
      map.y.data[i] = py;
      map.covered.data[i] = 1;
    }
  }
  const data = new Uint8Array((width * height * 3) / 2).fill(50);
  const frame = { width, height, data };
  const places = new PlaceRow(map, 20);
  const still = new Float32Array(grid.width * grid.height);
  return {
    frame,
    places,
    shift: { x: still, y: still },
    most: 20,
    spans: spansOf(map),
    scale: SCALE,
    black: 16,
    size,
    texture: texture(),
    before: copyOf(frame, { x: 0, y: 0, width, height }),
    opacity: 1,
    gain: 1,
    grain: { share: 0, limit: 0 },
    ...more,
  };
}

const at = ({ frame }: Layer, x: number, y: number): number => frame.data[y * width + x] as number;

describe('drawing a texture', () => {
  it('shows it where the mesh says, between its pixels, over the frame as far as its share', () => {
    const drawn = layer((x, y) => [x * 0.9 + 6.3, y * 0.8 + 8.1]);
    drawLuma(drawn);
    for (const [x, y] of [
      [5, 3],
      [12, 9],
      [30, 20],
      [44, 33],
    ] as const) {
      const [px, py] = [(x + 0.5) * 0.9 + 6.3 - 0.5, (y + 0.5) * 0.8 + 8.1 - 0.5];
      const part = Math.min(1, Math.max(0, ((px - 10) * 16) / 255));
      const wanted = 50 * (1 - part) + part * (100 + 60 * Math.sin(px / 5) + py / 2);
      expect(Math.abs(at(drawn, x, y) - wanted)).toBeLessThan(2);
    }
  });

  it("moves the frame's own pixels under it, as far as the mesh does", () => {
    const drawn = layer((x, y) => [x / 6, y]);
    const { before } = drawn;
    for (let i = 0; i < before.luma.length; i++) before.luma[i] = 4 * (i % width) + Math.floor(i / width);
    const shift = { x: drawn.shift.x.map(() => 1.5), y: drawn.shift.y.map(() => -2) };
    drawLuma({ ...drawn, shift });
    expect(at(drawn, 10, 9)).toBe(Math.round(4 * 11.5 + 7));
    expect(at(drawn, 20, 20)).toBe(Math.round(4 * 21.5 + 18));
  });

  it('leaves bytes as they are where the texture has no share', () => {
    const drawn = layer((x, y) => [x / 6, y]);
    drawLuma(drawn);
    expect(drawn.frame.data.subarray(0, width * height).every((value) => value === 50)).toBe(true);
  });

  it('shows nothing of what lies between the sides of a fold', () => {
    // The left half of the frame shows the texture around column 20, the right half around column 60, which is much
    // brighter or darker.
    const drawn = layer((x, y) => [x < 24 ? 20 : 60, y]);
    drawLuma(drawn);
    const sides = new Set([bright(19.5, 0), bright(59.5, 0)].map(Math.round));
    const [left, right] = [...sides] as [number, number];
    for (let x = 0; x < width; x++) {
      const wanted = x < 24 ? left : right;
      const part = x < 24 ? share(19.5) / 255 : 1;
      expect(Math.abs(at(drawn, x, 0) - (50 * (1 - part) + part * wanted))).toBeLessThan(3);
    }
  });

  it('makes brightness and colour follow the light, and shows half at half opacity', () => {
    const place = (x: number, y: number): [number, number] => [x / 2 + 30, y / 2];
    const [plain, lit, half] = [
      layer(place),
      layer(place, { gain: 1.25 }),
      layer(place, { opacity: 0.5 }),
    ] as const;
    for (const one of [plain, lit, half]) {
      drawLuma(one);
      drawChroma(one);
    }
    const value = at(plain, 20, 10);
    expect(Math.abs(at(lit, 20, 10) - (16 + 1.25 * (value - 16)))).toBeLessThan(2);
    expect(Math.abs(at(half, 20, 10) - (50 + value) / 2)).toBeLessThan(2);
    const colour = ({ frame }: Layer) => [
      frame.data[width * height + 100],
      frame.data[width * height * 1.25 + 100],
    ];
    expect(colour(plain)).toEqual([90, 170]);
    expect(colour(lit)).toEqual([Math.round(128 - 38 * 1.25), Math.round(128 + 42 * 1.25)]);
    expect(colour(half)).toEqual([70, 110]);
  });
});

describe('blendTextures', () => {
  it('mixes both halves of each word without one reaching into the other', () => {
    const [a, b] = [texture(), texture()];
    a.luma.fill(packLuma(255, 0));
    b.luma.fill(packLuma(-64, 1));
    const mixed = blendTextures(a, b, 1 / 3);
    const word = mixed.luma[0] as number;
    expect((word & 1023) / 3 - 64).toBeCloseTo(255 - (255 + 64) / 3, 0);
    expect((word >>> 18) / 63).toBeCloseTo(1 / 3, 1);
    expect(new Set(mixed.luma.subarray(0, size * size)).size).toBe(1);
    expect(blendTextures(a, b, 0).luma).toBe(a.luma);
    expect(blendTextures(a, b, 1).luma).toBe(b.luma);
  });
});
