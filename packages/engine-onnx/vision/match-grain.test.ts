import type { Picture } from '@semblance/engine-api/picture';
import { targetNoise } from '@semblance/engine-builtin/swap/noise';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { keepGrain, restoreGrain } from './match-grain.ts';
import type { PasteMask } from './paste.ts';

const SIDE = 200;

/** A grey picture with noise of this many levels. */
function grainy(levels: number, channels: 1 | 3 = 3, deep = false): Picture {
  const values = noise(SIDE * SIDE, 7);
  const unit = deep ? 257 : 1;
  // Even noise in [-1, 1) deviates by 1 / √3.
  const samples = Array.from({ length: SIDE * SIDE * channels }, (_, i) =>
    Math.round(unit * (120 + levels * Math.sqrt(3) * (values[Math.floor(i / channels)] as number))),
  );
  const data = deep ? Uint16Array.from(samples) : Uint8Array.from(samples);
  return { width: SIDE, height: SIDE, channels, data };
}

/** A face whose cheeks lie inside the picture. */
function cheeks(): Face {
  const points = new Float32Array(POINTS * 3);
  for (let i = 0; i < POINTS; i++) points.set([100, 100, 0], i * 3);
  for (const [index, x, y] of [
    [234, 40, 100],
    [454, 160, 100],
    [33, 70, 80],
    [263, 130, 80],
    [50, 65, 120],
    [280, 135, 120],
    [10, 100, 30],
    [152, 100, 170],
  ] as const)
    points.set([x, y, 0], index * 3);
  return faceFromPoints(points, 1);
}

const MASK: PasteMask = { originX: 30, originY: 30, scale: 1, share: plane(140, 140, 1) };

/** Draws over the masked part what a model gives: no grain at all, or some. */
function draw({ data, channels }: Picture, levels: number): void {
  const unit = data instanceof Uint16Array ? 257 : 1;
  const own = noise(SIDE * SIDE, 9);
  for (let y = 30; y < 170; y++)
    for (let x = 30; x < 170; x++)
      for (let c = 0; c < channels; c++)
        data[(y * SIDE + x) * channels + c] = Math.round(
          unit * (100 + levels * Math.sqrt(3) * (own[y * SIDE + x] as number)),
        );
}

describe('grain', () => {
  it.each([
    [3, 0, 3, false],
    [6, 2, 3, false],
    [4, 0, 1, false],
    [4, 0, 3, true],
  ] as const)(
    'of %d levels is restored where a model left %d (%d channels, deep: %s)',
    (levels, left, channels, deep) => {
      const face = cheeks();
      const picture = grainy(levels, channels, deep);
      const wanted = targetNoise(picture, face);
      expect(wanted).toBeGreaterThan(0.7 * levels);
      const kept = keepGrain(picture, face, MASK);
      draw(picture, left);
      expect(targetNoise(picture, face)).toBeLessThan(0.6 * wanted);
      restoreGrain(picture, face, MASK, kept, 1);
      expect(targetNoise(picture, face) / wanted).toBeGreaterThan(0.8);
      expect(targetNoise(picture, face) / wanted).toBeLessThan(1.15);
    },
  );

  it('is not added to a clean picture, nor where the face is grainy enough', () => {
    const face = cheeks();
    for (const [levels, left] of [
      [0, 0],
      [3, 3.5],
    ] as const) {
      const picture = grainy(levels);
      const kept = keepGrain(picture, face, MASK);
      draw(picture, left);
      const before = picture.data.slice();
      restoreGrain(picture, face, MASK, kept, 1);
      expect(picture.data).toEqual(before);
    }
  });

  it('takes no edge of the old face for grain', () => {
    const face = cheeks();
    const picture = grainy(2);
    for (let y = 60; y < 64; y++)
      for (let x = 60; x < 140; x++) picture.data.fill(0, (y * SIDE + x) * 3, (y * SIDE + x) * 3 + 3);
    const kept = keepGrain(picture, face, MASK);
    draw(picture, 0);
    restoreGrain(picture, face, MASK, kept, 1);
    // Twice the noise at most, of an edge of 120 levels.
    for (let y = 50; y < 75; y++)
      for (let x = 50; x < 150; x++)
        expect(Math.abs((picture.data[(y * SIDE + x) * 3] as number) - 100)).toBeLessThanOrEqual(6);
  });
});
