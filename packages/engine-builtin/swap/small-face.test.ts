import type { Picture } from '@semblance/engine-api/picture';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { shrink } from '@semblance/vision/picture';
import { beforeAll, expect, it } from 'vitest';
import { drawnWidth, enlarged } from './small-face.ts';
import { prepareSource } from './source-face.ts';
import { swapFace } from './swap-face.ts';

let target: Portrait;
let source: Portrait;

beforeAll(async () => {
  [target, source] = (await openPortraits(ASTRONAUT, ADMIRAL)) as [Portrait, Portrait];
});

/** Returns a portrait whose face is so many pixels wide. */
function shrunk({ picture, face }: Portrait, faceWidth: number): Portrait {
  const by = faceWidth / face.width;
  return {
    picture: shrink(picture, Math.round(picture.width * by), Math.round(picture.height * by)),
    face: faceFromPoints(
      face.points.map((v) => v * by),
      face.score,
    ),
  };
}

function swapped({ picture, face }: Portrait): Picture {
  const result = { ...picture, data: picture.data.slice() };
  swapFace(result, face, prepareSource(source.picture, source.face, drawnWidth(face.width)));
  return result;
}

/** Returns the mean difference of two pictures in and around the eyes, in levels. */
function apartAtEyes(a: Picture, b: Picture, { face }: Portrait): number {
  const differences: number[] = [];
  for (const eye of [LEFT_EYE, RIGHT_EYE]) {
    const at = (axis: number): number[] => eye.map((point) => face.points[point * 3 + axis] as number);
    const [left, right] = [Math.min(...at(0)) - 1, Math.max(...at(0)) + 1];
    const [top, bottom] = [Math.min(...at(1)) - 1, Math.max(...at(1)) + 1];
    for (let y = Math.floor(top); y <= bottom; y++)
      for (let i = (y * a.width + Math.floor(left)) * 3; i <= (y * a.width + right) * 3; i++)
        differences.push(Math.abs((a.data[i] as number) - (b.data[i] as number)));
  }
  return differences.reduce((sum, value) => sum + value, 0) / differences.length;
}

it('faces are enlarged to a hundred pixels, at most three times', () => {
  expect([30, 49, 50, 99, 100, 400].map(drawnWidth)).toEqual([90, 147, 100, 198, 100, 400]);
});

it('what is not drawn into stays as it is to the last bit, and a drawn pixel changes by the mean of its own', () => {
  const { picture, face } = shrunk(target, 45);
  const result = { ...picture, data: picture.data.slice() };
  const large = enlarged(result, face);
  large.lay();
  expect(result.data).toEqual(picture.data);
  const [width, channels] = [large.picture.width, 3];
  for (const x of [30, 31, 32]) large.picture.data[(60 * width + x) * channels] = 255;
  const before = enlarged(picture, face).picture.data;
  const change = [30, 31, 32].reduce(
    (sum, x) => sum + 255 - (before[(60 * width + x) * channels] as number),
    0,
  );
  large.lay();
  const changed = [...result.data].flatMap((value, i) =>
    value === picture.data[i] ? [] : [value - (picture.data[i] as number)],
  );
  expect(changed).toHaveLength(1);
  expect(changed[0]).toBeCloseTo(change / 9, -0.3);
});

it.each([40, 60])('eyes in a face of %i pixels are those of a large face, made smaller', (width) => {
  const small = shrunk(target, width);
  const wanted = shrunk({ ...target, picture: swapped(target) }, width).picture;
  expect(apartAtEyes(swapped(small), wanted, small)).toBeLessThan(6);
});

it('sixteen bits and a picture whose face reaches its edge are taken too', () => {
  const { picture, face } = shrunk(target, 60);
  const wide = { ...picture, data: Uint16Array.from(picture.data, (value) => value * 257) };
  swapFace(wide, face, prepareSource(source.picture, source.face, drawnWidth(face.width)));
  const result = swapped({ picture, face });
  let most = 0;
  for (const [i, value] of wide.data.entries())
    most = Math.max(most, Math.abs(value / 257 - (result.data[i] as number)));
  expect(most).toBeLessThan(6);
  const [left, top] = [Math.ceil(face.points[0] as number), 0];
  const cut = { ...picture, width: left, data: new Uint8Array(left * picture.height * 3) };
  for (let y = top; y < picture.height; y++)
    cut.data.set(picture.data.subarray(y * picture.width * 3, (y * picture.width + left) * 3), y * left * 3);
  expect(() => swapped({ picture: cut, face })).not.toThrow();
});
