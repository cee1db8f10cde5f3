import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { coverAt, coverCrop, coveredShare, showsFrame } from './face-cover.ts';
import { FaceFinder } from './face-finder.ts';
import { cropsOf, type Face } from './face-mesh.ts';
import { FACE_OVAL, LEFT_EYE, LEFT_LENS, LIPS_OUTER, NOSE_BRIDGE, RIGHT_LENS } from './face-regions.ts';
import { openSession } from './models/session.ts';
import { toCrop } from './picture.ts';
import type { Plane } from './plane/plane.ts';

const MEDIA = join(import.meta.dirname, '..', '..', 'media');
const PORTRAITS = ['astronaut.png', 'grace_hopper.jpg', 'einstein.jpg'];

let finder: FaceFinder;
beforeAll(async () => {
  const [blazeface, facemesh, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
  ]);
  finder = new FaceFinder({ blazeface, facemesh, face_cover });
});

async function portrait(name: string): Promise<{ picture: Picture; face: Face }> {
  const image = sharp(join(MEDIA, name)).removeAlpha().toColourspace('srgb');
  const { data, info } = await image.raw().toBuffer({ resolveWithObject: true });
  const picture: Picture = { width: info.width, height: info.height, channels: info.channels as 3, data };
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error(`no face in ${name}`);
  return { picture, face };
}

/** Fills the lower half of a face, from the nose to the chin, with one colour. */
function masked(picture: Picture, { points }: Face, colour: readonly number[]): Picture {
  const at = (index: number, axis: number): number => Math.round(points[index * 3 + axis] as number);
  const data = Uint8Array.from(picture.data);
  for (let y = at(4, 1); y < at(152, 1); y++)
    for (let x = at(234, 0); x < at(454, 0); x++) data.set(colour, (y * picture.width + x) * 3);
  return { ...picture, data };
}

const coverOf = async (picture: Picture, face: Face): Promise<Plane> => {
  const cover = await finder.coverOf(cropsOf(picture), face);
  if (!cover) throw new Error('the finder has no network for covers');
  return cover;
};

describe('what covers a face', () => {
  it.each([
    ['astronaut.png', 0.02],
    // A grainy photograph of a turned head, unlike the portraits of the training.
    ['einstein.jpg', 0.15],
  ])('is next to nothing on the bare face of %s', async (name, most) => {
    const { picture, face } = await portrait(name);
    expect(coveredShare(await coverOf(picture, face), face, FACE_OVAL)).toBeLessThan(most);
  });

  it.each(PORTRAITS)('is found in front of the mouth of %s', async (name) => {
    const { picture, face } = await portrait(name);
    for (const colour of [
      [60, 110, 200],
      [235, 235, 230],
    ]) {
      const cover = await coverOf(masked(picture, face, colour), face);
      expect(coveredShare(cover, face, LIPS_OUTER)).toBeGreaterThan(0.9);
      const [x, y] = [face.points[10 * 3] as number, face.points[10 * 3 + 1] as number];
      expect(coverAt(cover, coverCrop(face), x, y + 0.1 * face.width)).toBeLessThan(0.3);
    }
  });

  it('is the frame of the glasses that one wears, and not her eyes', async () => {
    const { picture, face } = await portrait('grace_hopper.jpg');
    const cover = await coverOf(picture, face);
    expect(showsFrame(cover, face)).toBe(true);
    expect(coveredShare(cover, face, NOSE_BRIDGE)).toBeGreaterThan(0.3);
    expect(coveredShare(cover, face, LIPS_OUTER)).toBeLessThan(0.02);
    expect(coveredShare(cover, face, FACE_OVAL)).toBeLessThan(0.3);
    const bare = await portrait('astronaut.png');
    expect(showsFrame(await coverOf(bare.picture, bare.face), bare.face)).toBe(false);
  });

  it('is the frame around one lens, too, where a hand hides the other', async () => {
    const shownBeside = async (name: string): Promise<number> => {
      const { picture, face } = await portrait(name);
      const data = Uint8Array.from(picture.data);
      const at = (index: number, axis: number): number => Math.round(face.points[index * 3 + axis] as number);
      // A hand of one colour, from the brow to the mouth, on the right half.
      for (let y = at(10, 1); y < at(13, 1); y++)
        for (let x = at(234, 0); x < at(193, 0); x++) data.set([150, 150, 150], (y * picture.width + x) * 3);
      const cover = await coverOf({ ...picture, data }, face);
      expect(coveredShare(cover, face, RIGHT_LENS)).toBeGreaterThan(0.6);
      expect(coveredShare(cover, face, LEFT_EYE)).toBeLessThan(0.1);
      return coveredShare(cover, face, LEFT_LENS);
    };
    expect(await shownBeside('grace_hopper.jpg')).toBeGreaterThan(0.08);
    expect(await shownBeside('astronaut.png')).toBeLessThan(0.03);
  });

  it('may be a thick frame, but not what hides most of what is around the eyes', async () => {
    const { face } = await portrait('astronaut.png');
    const SIZE = 96;
    const middle = toCrop(
      coverCrop(face),
      face.points[3 * 168] as number,
      face.points[3 * 168 + 1] as number,
    ).x;
    const shown = (right: number, left = right): boolean => {
      const data = Float32Array.from({ length: SIZE * SIZE }, (_, i) => (i % SIZE < middle ? right : left));
      return showsFrame({ width: SIZE, height: SIZE, data }, face);
    };
    expect([0.03, 0.3, 0.57, 0.7].map((share) => shown(share))).toEqual([false, true, true, false]);
    expect([shown(0.2, 0.57), shown(0.57, 0.2), shown(0.2, 0.45)]).toEqual([false, false, true]);
  });

  it('is nothing outside of its crop', async () => {
    const { picture, face } = await portrait('astronaut.png');
    const cover = await coverOf(picture, face);
    expect(coverAt({ ...cover, data: cover.data.slice().fill(1) }, coverCrop(face), -500, -500)).toBe(0);
  });
});
