import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { shrink } from '@semblance/vision/picture';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { drawnWidth } from './small-face.ts';
import { prepareSource } from './source-face.ts';
import { planSwap, swapFace } from './swap-face.ts';

let target: Portrait;
let source: Portrait;

beforeAll(async () => {
  [target, source] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

function swapped(base: Portrait, face: Portrait): Picture {
  const picture = { ...base.picture, data: base.picture.data.slice() };
  swapFace(picture, base.face, prepareSource(face.picture, face.face, drawnWidth(base.face.width)));
  return picture;
}

async function blurred({ picture, face }: Portrait, sigma: number): Promise<Portrait> {
  const { width, height } = picture;
  const data = await sharp(picture.data, { raw: { width, height, channels: 3 } })
    .blur(sigma)
    .raw()
    .toBuffer();
  return { face, picture: { ...picture, data: new Uint8Array(data) } };
}

/** Returns a portrait whose face is so many pixels wide. */
function shrunk({ picture, face }: Portrait, faceWidth: number): Portrait {
  const by = faceWidth / face.width;
  return {
    picture: shrink(picture, Math.round(picture.width * by), Math.round(picture.height * by)),
    face: faceFromPoints(
      face.points.map((v) => v * by),
      1,
    ),
  };
}

/** Returns the pixels around a mesh point, red, green and blue in turn. */
function patch({ width, data }: Picture, { face }: Portrait, point: number, radius: number): number[] {
  const x = Math.round(face.points[point * 3] as number);
  const y = Math.round(face.points[point * 3 + 1] as number);
  const out: number[] = [];
  for (let row = y - radius; row <= y + radius; row++)
    for (let i = (row * width + x - radius) * 3; i < (row * width + x + radius + 1) * 3; i++)
      out.push(data[i] as number);
  return out;
}

const mean = (values: readonly number[]): number => values.reduce((sum, v) => sum + v, 0) / values.length;
const apart = (a: readonly number[], b: readonly number[]): number =>
  mean(a.map((v, i) => Math.abs(v - (b[i] as number))));
/** Returns the mean difference of green from its neighbours in a patch of 5 × 5 pixels (Laplacian). */
function edges(patch: readonly number[]): number {
  const at = (x: number, y: number): number => patch[(y * 5 + x) * 3 + 1] as number;
  let sum = 0;
  for (let y = 1; y < 4; y++)
    for (let x = 1; x < 4; x++)
      sum += Math.abs(4 * at(x, y) - at(x - 1, y) - at(x + 1, y) - at(x, y - 1) - at(x, y + 1));
  return sum / 9;
}

/** Returns a portrait with a black frame around each eye and over the bridge of the nose. */
function withFrame({ picture, face }: Portrait): Portrait {
  const { width } = picture;
  const data = picture.data.slice();
  for (const eye of [RIGHT_EYE, LEFT_EYE]) {
    const [x, y] = [0, 1].map((c) => mean(eye.map((i) => face.points[i * 3 + c] as number))) as [
      number,
      number,
    ];
    const outside = 0.2 * face.width;
    for (let row = Math.floor(y - outside); row < y + outside; row++) {
      for (let column = Math.floor(x - outside); column < x + outside; column++) {
        const from = Math.hypot(column - x, row - y) / face.width;
        if (from < 0.2 && from > 0.15)
          data.fill(12, (row * width + column) * 3, (row * width + column + 1) * 3);
      }
    }
  }
  return { face, picture: { ...picture, data } };
}

/** Mesh points on both cheeks, on the jaw and on the forehead. */
const SKIN = [50, 187, 280, 411, 150, 379, 151];

describe("a swap in the target's own skin", () => {
  it('leaves complexion and texture of cheeks, jaw and forehead as they are', () => {
    const result = swapped(target, source);
    for (const point of SKIN) {
      const [before, after] = [target.picture, result].map((p) => patch(p, target, point, 3)) as [
        number[],
        number[],
      ];
      expect(Math.abs(mean(after) - mean(before)), `at ${point}`).toBeLessThan(8);
      expect(apart(after, before), `at ${point}`).toBeLessThan(10);
    }
  });

  it("shows the source's features", () => {
    const result = swapped(target, source);
    for (const point of [LEFT_EYE[4], RIGHT_EYE[4], 5]) {
      const [before, after] = [target.picture, result].map((p) => patch(p, target, point as number, 4)) as [
        number[],
        number[],
      ];
      expect(apart(after, before), `at ${point}`).toBeGreaterThan(6);
    }
  });

  it('gives the nose the same colour beside a black frame as without', () => {
    const framed = withFrame(target);
    const bare = swapped(target, source);
    const result = swapped(framed, source);
    for (const point of [195, 5, 134, 363]) {
      const [without, beside] = [bare, result].map((p) => mean(patch(p, target, point, 3))) as [
        number,
        number,
      ];
      // Without the care for covers it is 23 levels on the bridge.
      expect(Math.abs(beside - without), `at ${point}`).toBeLessThan(6);
    }
  });

  it('leaves the inside of the mouth to the target', () => {
    const result = swapped(target, source);
    const mouth = (picture: Picture): number =>
      mean([13, 14, 82, 87, 312, 317].flatMap((i) => patch(picture, target, i, 1)));
    expect(Math.abs(mouth(result) - mouth(target.picture))).toBeLessThan(0.15 * mouth(target.picture));
  });

  it("makes a source sharper or softer, so that its features are as sharp as the target's", async () => {
    const sharpness = (picture: Picture): number =>
      mean([...LEFT_EYE, ...RIGHT_EYE].map((point) => edges(patch(picture, target, point, 2))));
    const usual = sharpness(swapped(target, source));
    const soft = sharpness(swapped(target, await blurred(source, 2.5)));
    const plain = sharpness(swapped(target, await blurred(source, 1)));
    expect(plain).toBeGreaterThan(0.85 * usual);
    expect(soft).toBeGreaterThan(0.52 * usual);
    const softTarget = await blurred(target, 3);
    const inSoft = sharpness(swapped(softTarget, source));
    expect(inSoft).toBeLessThan(0.6 * usual);
  });

  it("does not sharpen a small source, which gets the target's finest detail", async () => {
    const sharpness = (face: Portrait): number =>
      planSwap(target.picture, target.face, prepareSource(face.picture, face.face, target.face.width)).skin
        .sharpness;
    expect(sharpness(shrunk(source, 44))).toBe(1);
    // A soft one that is not small gets none, so it is made sharper.
    expect(sharpness(await blurred(source, 2.5))).toBeGreaterThan(1);
  });

  it("gives the features of a small source the target's finest detail and eyes, and keeps their shape and colour", () => {
    const small = shrunk(source, 44);
    const sharpness = (picture: Picture): number =>
      mean([...LEFT_EYE, ...RIGHT_EYE].map((point) => edges(patch(picture, target, point, 2))));
    const result = swapped(target, small);
    expect(sharpness(result)).toBeGreaterThan(0.75 * sharpness(target.picture));
    // An eye has the colours of the target's, wherever its shape has moved it.
    const colours = (picture: Picture): number[] =>
      [0, 1, 2].map((c) =>
        mean(
          [159, 145, 386, 374].flatMap((lid) => patch(picture, target, lid, 3).filter((_, i) => i % 3 === c)),
        ),
      );
    expect(apart(colours(result), colours(target.picture))).toBeLessThan(14);
    const nose = (picture: Picture): number[] => patch(picture, target, 5, 4);
    expect(apart(nose(result), nose(target.picture))).toBeGreaterThan(4);
  });
});
