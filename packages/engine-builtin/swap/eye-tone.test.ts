import { EYES } from '@semblance/vision/gaze';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { eyeTone } from './eye-tone.ts';
import type { Channels } from './light.ts';

const [W, H] = [120, 60];
const IRIS = 7;
const MIDDLES = [30, 90] as const;

/** Mesh points with two eyes that are 30 pixels wide and 14 high. */
function points(): Float32Array {
  const out = new Float32Array(478 * 2);
  EYES.forEach(({ outline }, side) => {
    outline.forEach((index, k) => {
      const angle = (2 * Math.PI * k) / outline.length;
      out[index * 2] = (MIDDLES[side] as number) + 15 * Math.cos(angle);
      out[index * 2 + 1] = H / 2 + 7 * Math.sin(angle);
    });
  });
  return out;
}

/** Draws two eyes on skin: a white of one colour, and an iris of another. */
function face(white: readonly number[], iris: readonly number[]): Channels {
  const out: Channels = [plane(W, H), plane(W, H), plane(W, H)];
  for (let y = 0; y < H; y++)
    for (let x = 0; x < W; x++) {
      const eye = MIDDLES.find((middle) => Math.hypot((x + 0.5 - middle) / 15, (y + 0.5 - H / 2) / 7) < 1);
      const inside = eye !== undefined && Math.hypot(x + 0.5 - eye, y + 0.5 - H / 2) < IRIS;
      const colour = eye === undefined ? [180, 140, 120] : inside ? iris : white;
      for (let c = 0; c < 3; c++) (out[c] as Plane).data[y * W + x] = colour[c] as number;
    }
  return out;
}

const at = (channels: Channels, x: number): number[] =>
  channels.map((channel) => channel.data[(H / 2) * W + x] as number);
/** Places in the right eye: on its white, and on its iris. */
const WHITE = 19;
const IN_IRIS = 33;

describe('the white of the eyes of a swapped face', () => {
  it("is as bright and as blue as the target's, while the iris keeps its colour", () => {
    const own = face([190, 190, 198], [60, 40, 30]);
    const lit = face([110, 90, 70], [50, 70, 40]);
    const added = eyeTone(own, lit, points(), W);
    const white = at(added, WHITE).map((by, c) => by + (at(lit, WHITE)[c] as number));
    expect(Math.min(...white)).toBeGreaterThan(150);
    expect(Math.max(...white) - Math.min(...white)).toBeLessThan(30);
    expect(Math.max(...at(added, IN_IRIS).map(Math.abs))).toBeLessThan(3);
  });

  it('never gets darker', () => {
    const added = eyeTone(
      face([120, 120, 120], [40, 40, 40]),
      face([200, 200, 200], [50, 70, 40]),
      points(),
      W,
    );
    expect(at(added, WHITE)).toEqual([0, 0, 0]);
  });

  it('stays as it is where the target shows no white', () => {
    const shut = face([150, 150, 150], [150, 150, 150]);
    const added = eyeTone(shut, face([110, 90, 70], [50, 70, 40]), points(), W);
    expect(added.every(({ data }) => data.every((by) => by === 0))).toBe(true);
  });
});
