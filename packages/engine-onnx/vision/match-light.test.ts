import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import type { RgbImage } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { matchedLight } from './match-light.ts';

const SIDE = 256;

/** A face-like pattern: skin with fine relief, and dark spots as features. */
function face(seed: number, light: (x: number, y: number, c: number) => number): RgbImage {
  const relief = noise(SIDE * SIDE, seed);
  const data = new Float32Array(SIDE * SIDE * 3);
  for (let i = 0; i < SIDE * SIDE; i++) {
    const [x, y] = [i % SIDE, Math.floor(i / SIDE)];
    const spot = Math.hypot(x - 90 - seed, y - 100) < 9 || Math.hypot(x - 160 - seed, y - 100) < 9 ? 0.4 : 1;
    for (let c = 0; c < 3; c++)
      data[i * 3 + c] = Math.min(
        255,
        ([190, 140, 110][c] as number) * spot * (1 + 0.04 * (relief[i] as number)) * light(x, y, c),
      );
  }
  return { width: SIDE, height: SIDE, data };
}

const even = () => 1;
/** Light from the left, bluish. */
const aside = (x: number, _y: number, c: number) => (1.25 - x / SIDE) * ([0.85, 0.95, 1.15][c] as number);
/** The oval of a face. */
const oval = (x: number, y: number) => (((x - 128) / 75) ** 2 + ((y - 128) / 95) ** 2 < 1 ? 1 : 0);

/** Mean difference of the light on both, over squares of 16 pixels inside the face. */
function apart(a: RgbImage, b: RgbImage): number {
  let [sum, count] = [0, 0];
  for (let top = 48; top < 208; top += 16) {
    for (let left = 64; left < 192; left += 16) {
      if (!oval(left + 8, top + 8)) continue;
      for (let c = 0; c < 3; c++, count++) {
        let difference = 0;
        for (let y = top; y < top + 16; y++)
          for (let x = left; x < left + 16; x++) {
            const i = (y * SIDE + x) * 3 + c;
            difference += (a.data[i] as number) - (b.data[i] as number);
          }
        sum += Math.abs(difference) / 256;
      }
    }
  }
  return sum / count;
}

describe('matchedLight', () => {
  it('gives a drawing the light of its picture, its brightness and its colour', () => {
    const base = face(1, aside);
    const drawn = face(8, even);
    const lit = matchedLight(drawn, base, oval, 1);
    expect(apart(drawn, base)).toBeGreaterThan(20);
    expect(apart(lit, base)).toBeLessThan(5);
    expect(apart(matchedLight(drawn, base, oval, 0.5), base)).toBeGreaterThan(apart(lit, base) + 3);
    expect(matchedLight(drawn, base, oval, 0)).toBe(drawn);
  });

  it('leaves a drawing nearly as it is that has the light already', () => {
    const drawn = face(8, aside);
    expect(apart(matchedLight(drawn, face(1, aside), oval, 1), drawn)).toBeLessThan(1.5);
  });

  it('keeps the contrast of features and relief', () => {
    const lit = matchedLight(face(8, even), face(1, aside), oval, 1);
    const at = (x: number, y: number) => lit.data[(y * SIDE + x) * 3 + 1] as number;
    // A spot has 0.4 of the brightness of the skin beside it.
    expect(at(98, 100) / at(98, 120)).toBeCloseTo(0.4, 1);
  });

  it('is not led astray by a beard that only the picture has', () => {
    const beard = (x: number, y: number, c: number) => aside(x, y, c) * (y > 170 ? 0.35 : 1);
    const lit = matchedLight(face(8, even), face(1, beard), oval, 1);
    // The chin of the drawing stays skin: nearly two thirds as bright as without the beard, not a third.
    const plain = matchedLight(face(8, even), face(1, aside), oval, 1);
    const chin = (image: RgbImage) => image.data[(205 * SIDE + 128) * 3 + 1] as number;
    expect(chin(lit)).toBeGreaterThan(0.62 * chin(plain));
  });

  it('changes nothing where nothing is known of the face', () => {
    const drawn = face(8, even);
    expect(matchedLight(drawn, face(1, aside), () => 0, 1)).toBe(drawn);
  });
});
