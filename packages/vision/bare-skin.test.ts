import { join } from 'node:path';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { withoutBareSkin } from './bare-skin.ts';
import { COVERED, coverCrop } from './face-cover.ts';
import { FaceFinder } from './face-finder.ts';
import { cropsOf, type Face } from './face-mesh.ts';
import { openSession } from './models/session.ts';
import { type CropTransform, toCrop } from './picture.ts';
import { type Plane, plane } from './plane/plane.ts';

const SIZE = 96;
const ASTRONAUT = join(import.meta.dirname, '..', '..', 'media', 'astronaut.png');
/** Mesh points on a cheek, on the lips, and at the side of the jaw. */
const [CHEEK, LIPS, JAW] = [425, 13, 397];

let face: Face;
let crop: CropTransform;
let pixels: Float32Array;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const image = sharp(ASTRONAUT).removeAlpha().toColourspace('srgb');
  const { data, info } = await image.raw().toBuffer({ resolveWithObject: true });
  const picture = { width: info.width, height: info.height, channels: 3 as const, data };
  const [found] = await new FaceFinder({ blazeface, facemesh }).find(picture, () => undefined);
  if (!found) throw new Error('no face');
  face = found;
  crop = coverCrop(face);
  pixels = cropsOf(picture)(crop, SIZE);
});

/** Covers a disc around a mesh point, in pixels of the crop. */
function disc(point: number, radius: number): Plane {
  const at = toCrop(crop, face.points[point * 3] as number, face.points[point * 3 + 1] as number);
  const out = plane(SIZE, SIZE);
  for (let i = 0; i < out.data.length; i++) {
    if (Math.hypot((i % SIZE) - at.x, Math.floor(i / SIZE) - at.y) < radius) out.data[i] = 0.9;
  }
  return out;
}

/** Returns the crop with one colour where something covers it. */
function painted(cover: Plane, colour: ArrayLike<number>): Float32Array {
  const out = pixels.slice();
  for (let i = 0; i < cover.data.length; i++) if (cover.data[i]) out.set(colour, i * 3);
  return out;
}

function colourAt(point: number): Float32Array {
  const at = toCrop(crop, face.points[point * 3] as number, face.points[point * 3 + 1] as number);
  const i = Math.round(at.y) * SIZE + Math.round(at.x);
  return pixels.slice(i * 3, i * 3 + 3);
}

const sum = ({ data }: Plane): number => data.reduce((all, value) => all + value, 0);
const seen = () => ({ crop, pixels, from: COVERED[0] });

describe('a cover without bare skin', () => {
  it('loses a bare cheek', () => {
    expect(sum(withoutBareSkin(disc(CHEEK, 6), seen(), face))).toBe(0);
  });

  it('keeps what hides the mouth', () => {
    const cover = disc(LIPS, 7);
    expect(sum(withoutBareSkin(cover, seen(), face))).toBe(sum(cover));
  });

  it('keeps what reaches out of the face like a hand, but not where no hand is near', () => {
    const cover = disc(JAW, 12);
    const hand = { ...seen(), pixels: painted(cover, colourAt(CHEEK)) };
    expect(sum(withoutBareSkin(cover, hand, face))).toBe(sum(cover));
    expect(sum(withoutBareSkin(cover, hand, face, 1))).toBe(0);
  });

  it('keeps a cheek in another colour', () => {
    const cover = disc(CHEEK, 6);
    const blue = { ...seen(), pixels: painted(cover, [40, 70, 190]) };
    expect(sum(withoutBareSkin(cover, blue, face))).toBe(sum(cover));
  });
});
