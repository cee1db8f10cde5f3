import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { type Channels, luma } from './light.ts';
import { lipTone } from './lip-tone.ts';

const [W, H] = [120, 90];
const MIDDLE = [60, 60] as const;
const NONE = plane(W, H);

/** Mesh points with cheeks above and beside a mouth that is 40 pixels wide and a little open. */
function points(): Float32Array {
  const out = new Float32Array(478 * 2);
  for (const [outline, height] of [
    [LIPS_OUTER, 10],
    [LIPS_INNER, 3],
  ] as const) {
    outline.forEach((index, k) => {
      const angle = (2 * Math.PI * k) / outline.length;
      out[index * 2] = MIDDLE[0] + (height === 3 ? 16 : 20) * Math.cos(angle);
      out[index * 2 + 1] = MIDDLE[1] + height * Math.sin(angle);
    });
  }
  [50, 187, 205, 280, 411, 425].forEach((index, k) => {
    out[index * 2] = k < 3 ? 20 : 100;
    out[index * 2 + 1] = 25 + 5 * (k % 3);
  });
  return out;
}

/** Draws lips of one colour on skin of another. */
function face(skin: readonly number[], lips: readonly number[]): Channels {
  const out: Channels = [plane(W, H), plane(W, H), plane(W, H)];
  for (let y = 0; y < H; y++)
    for (let x = 0; x < W; x++) {
      const inside = Math.hypot((x + 0.5 - MIDDLE[0]) / 20, (y + 0.5 - MIDDLE[1]) / 10) < 1;
      for (let c = 0; c < 3; c++)
        (out[c] as { data: Float32Array }).data[y * W + x] = (inside ? lips : skin)[c] as number;
    }
  return out;
}

/** Returns the colour in the middle of the lower lip. */
const lip = (channels: Channels): number[] =>
  channels.map((channel) => channel.data[(MIDDLE[1] + 6) * W + MIDDLE[0]] as number);
const after = (own: Channels, lit: Channels, covered = NONE): number[] =>
  lip(lipTone(own, lit, { covered, points: points() }, W)).map((by, c) => by + (lip(lit)[c] as number));

const GLARING = [255, 245, 240] as const;

describe('the lips of a swapped face', () => {
  it('are neither white nor grey on skin in glaring light', () => {
    const [r, g, b] = after(face(GLARING, [240, 160, 180]), face(GLARING, [250, 240, 234])) as [
      number,
      number,
      number,
    ];
    expect(r - g).toBeGreaterThan(30);
    expect(luma(r, g, b)).toBeLessThan(0.95 * luma(...GLARING));
  });

  it('stay as they are where they are red enough', () => {
    const [own, lit] = [face([200, 150, 130], [180, 105, 100]), face([200, 150, 130], [175, 110, 105])];
    expect(after(own, lit)).toEqual(lip(lit));
  });

  it('take no paint from the target', () => {
    const [r, g] = after(face([200, 150, 130], [200, 20, 60]), face([200, 150, 130], [165, 120, 105])) as [
      number,
      number,
    ];
    expect(r - g).toBeLessThan(100);
  });

  it('may be paler than the skin where those of the target are', () => {
    const [own, lit] = [face([80, 52, 40], [95, 58, 50]), face([80, 52, 40], [94, 57, 49])];
    expect(after(own, lit)).toEqual(lip(lit));
  });

  it('stay as they are where something covers the mouth', () => {
    const covered = plane(W, H, 1);
    const lit = face(GLARING, [250, 240, 234]);
    expect(after(face(GLARING, [240, 160, 180]), lit, covered)).toEqual(lip(lit));
  });
});
