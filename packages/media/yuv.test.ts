import { describe, expect, it } from 'vitest';
import { evenRect, regionToRgb, rgbToRegion } from './yuv.ts';

const frameOf = (width: number, height: number, fill: readonly [number, number, number]) => {
  const data = new Uint8Array((width * height * 3) / 2);
  data.fill(fill[0], 0, width * height);
  data.fill(fill[1], width * height, (width * height * 5) / 4);
  data.fill(fill[2], (width * height * 5) / 4);
  return { width, height, data };
};
const pixel = (fill: readonly [number, number, number], range: 'tv' | 'pc', space: string) => [
  ...regionToRgb(frameOf(4, 4, fill), { x: 0, y: 0, width: 2, height: 2 }, { range, space }).data.subarray(
    0,
    3,
  ),
];

describe('a region as RGB', () => {
  // Full red, green, blue and white in the standards, with 8 bits.
  it.each([
    ['bt709', 'tv', [63, 102, 240], [255, 0, 0]],
    ['bt709', 'tv', [173, 42, 26], [0, 255, 0]],
    ['bt709', 'tv', [32, 240, 118], [0, 0, 255]],
    ['smpte170m', 'tv', [81, 90, 240], [255, 0, 0]],
    ['smpte170m', 'tv', [145, 54, 34], [0, 255, 0]],
    ['smpte170m', 'pc', [76, 85, 255], [255, 0, 0]],
    ['bt2020nc', 'tv', [74, 97, 240], [255, 0, 0]],
    ['bt709', 'tv', [235, 128, 128], [255, 255, 255]],
    ['bt709', 'tv', [16, 128, 128], [0, 0, 0]],
    ['bt709', 'pc', [0, 128, 128], [0, 0, 0]],
  ] as const)('%s %s %j is %j', (space, range, yuv, rgb) => {
    const got = pixel(yuv, range, space);
    for (const [channel, value] of rgb.entries())
      expect(Math.abs((got[channel] ?? 0) - value)).toBeLessThanOrEqual(3);
  });

  it('takes the matrix players assume where a file states none', () => {
    expect(pixel([81, 90, 240], 'tv', 'unknown')).toEqual(pixel([81, 90, 240], 'tv', 'smpte170m'));
  });

  it('takes the pixels of the place asked for', () => {
    const frame = frameOf(8, 6, [100, 128, 128]);
    frame.data[3 * 8 + 5] = 200;
    const { data } = regionToRgb(frame, { x: 4, y: 2, width: 4, height: 4 }, { range: 'pc', space: 'bt709' });
    expect([...data.filter((_, i) => i % 3 === 0)]).toEqual([
      ...[100, 100, 100, 100, 100, 200, 100, 100],
      ...[100, 100, 100, 100, 100, 100, 100, 100],
    ]);
  });

  it.each([
    { x: 1, y: 0, width: 2, height: 2 },
    { x: 0, y: 0, width: 10, height: 2 },
    { x: -2, y: 0, width: 2, height: 2 },
  ])('refuses %j of a frame of 8 × 6', (rect) => {
    expect(() => regionToRgb(frameOf(8, 6, [0, 0, 0]), rect, { range: 'tv', space: 'bt709' })).toThrow(
      RangeError,
    );
  });
});

describe('RGB into a region', () => {
  it.each(['bt709', 'smpte170m', 'smpte240m', 'fcc', 'bt2020nc'])('gives back what %s was', (space) => {
    for (const range of ['tv', 'pc'] as const) {
      const frame = frameOf(64, 48, [0, 0, 0]);
      let seed = 7;
      const random = () => {
        seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
        return seed / 2 ** 31;
      };
      // These colours exist in RGB: medium luma, chroma near grey.
      for (let i = 0; i < frame.data.length; i++) {
        frame.data[i] = i < 64 * 48 ? 90 + Math.floor(random() * 70) : 104 + Math.floor(random() * 48);
      }
      const before = frame.data.slice();
      const rect = { x: 10, y: 6, width: 40, height: 30 };
      rgbToRegion(frame, rect, regionToRgb(frame, rect, { range, space }).data, { range, space });
      let most = 0;
      for (const [i, value] of frame.data.entries())
        most = Math.max(most, Math.abs(value - (before[i] as number)));
      expect(most).toBeLessThanOrEqual(1);
    }
  });

  it('leaves what lies outside, and what the mask leaves out, byte for byte', () => {
    const frame = frameOf(16, 16, [50, 90, 200]);
    const rect = { x: 4, y: 4, width: 8, height: 8 };
    const mask = new Uint8Array(64);
    mask.fill(255, 0, 32);
    rgbToRegion(frame, rect, new Uint8Array(192).fill(255), { range: 'tv', space: 'bt709' }, mask);
    const changed = [...frame.data.subarray(0, 256)].flatMap((value, i) => (value === 50 ? [] : [i]));
    expect(changed).toHaveLength(32);
    expect(changed.every((i) => i % 16 >= 4 && i % 16 < 12 && i >= 64 && i < 128)).toBe(true);
    expect([...frame.data.subarray(256, 320)].filter((value) => value !== 90)).toEqual(Array(8).fill(128));
  });

  it('mixes by the mask', () => {
    const frame = frameOf(4, 4, [16, 128, 128]);
    const rect = { x: 0, y: 0, width: 2, height: 2 };
    rgbToRegion(
      frame,
      rect,
      new Float32Array(12).fill(255),
      { range: 'tv', space: 'bt709' },
      new Uint8Array(4).fill(128),
    );
    expect(frame.data[0]).toBe(126);
  });
});

describe('an even region', () => {
  const frame = { width: 20, height: 10 };
  it.each([
    [
      { x: 3, y: 1, width: 4, height: 4 },
      { x: 2, y: 0, width: 6, height: 6 },
    ],
    [
      { x: -5, y: -5, width: 100, height: 100 },
      { x: 0, y: 0, width: 20, height: 10 },
    ],
    [
      { x: 30, y: 3, width: 4, height: 4 },
      { x: 20, y: 2, width: 0, height: 6 },
    ],
  ])('of %j is %j', (rect, even) => expect(evenRect(rect, frame)).toEqual(even));
});
