import type { Picture } from '@semblance/engine-api/picture';
import { edgeError, iou } from '@semblance/testkit/vision/composites';
import { describe, expect, it } from 'vitest';
import type { PersonMask } from './person.ts';
import { refineMask } from './person-edges.ts';
import { maskInPicture } from './person-mask.ts';
import { squareCrop, toCrop } from './picture.ts';

/** A mask that is `inside` where the function of its unit square says so. */
function maskOf(
  side: number,
  region: PersonMask['region'],
  inside: (u: number, v: number) => number,
): PersonMask {
  const data = Uint8Array.from({ length: side * side }, (_, i) =>
    Math.round(255 * inside(((i % side) + 0.5) / side, (Math.floor(i / side) + 0.5) / side)),
  );
  return { data, side, region };
}

describe('a mask laid into its picture', () => {
  it.each([
    { x: 60, y: 50, size: 80, angle: 0 },
    { x: 60, y: 50, size: 60, angle: 0.4 },
    { x: 10, y: 95, size: 90, angle: -2.5 },
  ])('lies where its square lies: %o', (region) => {
    const [width, height] = [120, 100];
    const ramp = maskOf(32, region, (u, v) => 0.2 + 0.5 * u + 0.3 * v);
    const out = maskInPicture(ramp, width, height);
    const crop = squareCrop(region, region.size, region.angle, 1);
    let seen = 0;
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const { x: u, y: v } = toCrop(crop, x + 0.5, y + 0.5);
        const value = out[y * width + x] as number;
        const margin = Math.min(u, v, 1 - u, 1 - v);
        if (margin < -0.01) expect(value).toBe(0);
        // Half a mask pixel at the rim repeats the outermost one.
        if (margin > 1 / 64) {
          seen++;
          expect(Math.abs(value - 255 * (0.2 + 0.5 * u + 0.3 * v))).toBeLessThan(2);
        }
      }
    }
    expect(seen).toBeGreaterThan(500);
  });

  it('is empty when its square lies outside', () => {
    const mask = maskOf(8, { x: -100, y: 40, size: 60, angle: 0.2 }, () => 1);
    expect(maskInPicture(mask, 50, 50).every((value) => value === 0)).toBe(true);
  });
});

describe('a refined mask', () => {
  const [width, height] = [320, 240];
  const truth = Uint8Array.from({ length: width * height }, (_, i) => {
    const [x, y] = [(i % width) + 0.5, Math.floor(i / width) + 0.5];
    return Math.hypot(x - 150, y - 130) < 70 ? 255 : 0;
  });
  /** Skin in front of a wall of the same brightness, both a little uneven. */
  function scene(channels: Picture['channels'], bits: 8 | 16): Picture {
    const [person, wall] =
      channels < 3
        ? [[190], [90]]
        : [
            [210, 130, 90],
            [90, 160, 200],
          ];
    const data =
      bits === 16 ? new Uint16Array(width * height * channels) : new Uint8Array(width * height * channels);
    for (let i = 0; i < width * height; i++) {
      const colour = truth[i] ? person : wall;
      for (let c = 0; c < channels; c++) {
        const value = (colour[c] ?? 255) + ((i * 7919 + c * 31) % 13) - 6;
        data[i * channels + c] = bits === 16 ? value * 257 : value;
      }
    }
    return { width, height, channels, data };
  }
  // The network's mask: 64 pixels where the picture has 320, soft, and a picture's few pixels beside the edge.
  const region = { x: 160, y: 120, size: 320, angle: 0.1 };
  const crop = squareCrop(region, region.size, region.angle, 1);
  const middle = toCrop(crop, 147, 132);
  const coarse = maskOf(64, region, (u, v) =>
    Math.min(1, Math.max(0, 0.5 + (70 - 320 * Math.hypot(u - middle.x, v - middle.y)) / 16)),
  );

  it.each([
    [3, 8],
    [4, 16],
    [1, 8],
    [2, 16],
  ] as const)('follows the edge of the picture: %i channels of %i bits', (channels, bits) => {
    const plain = maskInPicture(coarse, width, height);
    const refined = refineMask(coarse, scene(channels, bits));
    const before = edgeError(plain, truth, width);
    const after = edgeError(refined, truth, width);
    expect(before).toBeGreaterThan(0.15);
    expect(after).toBeLessThan(0.4 * before);
    expect(iou(refined, truth)).toBeGreaterThan(0.985);
  });

  it('keeps the mask where the picture has no edge', () => {
    const flat: Picture = { width, height, channels: 3, data: new Uint8Array(width * height * 3).fill(120) };
    const refined = refineMask(coarse, flat);
    expect(iou(refined, maskInPicture(coarse, width, height))).toBeGreaterThan(0.97);
  });

  it('is all there inside and nothing far outside', () => {
    const refined = refineMask(coarse, scene(3, 8));
    expect(refined[130 * width + 150]).toBe(255);
    expect(refined[10 * width + 10]).toBe(0);
    const empty = { ...coarse, data: new Uint8Array(64 * 64) };
    expect(refineMask(empty, scene(3, 8)).every((value) => value === 0)).toBe(true);
  });
});
