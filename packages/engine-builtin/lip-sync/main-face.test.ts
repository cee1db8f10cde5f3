import { join } from 'node:path';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { rgbToYuv } from '../animate/yuv.ts';
import { type Followed, MainFace, shift } from './main-face.ts';

const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');
const SIZE = 400;
const COLOR = { range: 'tv', space: 'bt709' } as const;

let finder: FaceFinder;
const stills = new Map<string, Uint8Array>();

beforeAll(async () => {
  const [blazeface, facemesh, face_cover] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
  ]);
  finder = new FaceFinder({ blazeface, facemesh, face_cover });
  for (const name of ['astronaut.png', 'grace_hopper.jpg']) {
    const picture = sharp(join(MEDIA, name)).removeAlpha().toColourspace('srgb');
    const rgb = await picture.resize(SIZE, SIZE, { position: 'top' }).raw().toBuffer();
    stills.set(name, rgbToYuv(new Uint8Array(rgb), SIZE, SIZE));
  }
}, 60_000);

/** Returns a still as a frame; `board` hides the part with the face. */
function frame(name: string, board = false) {
  const data = (stills.get(name) as Uint8Array).slice();
  if (board) for (let y = 20; y < 190; y++) data.fill(90, y * SIZE + 95, y * SIZE + 265);
  return { width: SIZE, height: SIZE, data };
}

async function follow(frames: readonly ReturnType<typeof frame>[]): Promise<Followed[]> {
  const main = new MainFace(finder, COLOR, () => undefined);
  const out: Followed[] = [];
  for (const one of frames) out.push(await main.follow(one));
  return out;
}

describe('the main face', () => {
  it('is seen again in the first frame in which nothing hides it', async () => {
    const [face, board] = [frame('astronaut.png'), frame('astronaut.png', true)];
    const seen = await follow([face, face, board, board, board, face, face]);
    expect(seen.map((one) => one.face !== undefined)).toEqual([true, true, false, false, false, true, true]);
    expect(seen.map(({ cut }) => cut)).not.toContain(true);
    expect(shift(seen[5]?.face as never, seen[1]?.face as never)).toBeLessThan(0.03);
  });

  it('has a covered mouth while a board is in front of it', async () => {
    const free = frame('grace_hopper.jpg');
    const [face] = await follow([free]);
    const points = face?.face?.points as Float32Array;
    const [top, bottom] = [points[2 * 3 + 1] as number, points[152 * 3 + 1] as number];
    const [left, right] = [points[234 * 3] as number, points[454 * 3] as number];
    const boarded = { ...free, data: free.data.slice() };
    for (let y = Math.round(top); y < bottom; y++)
      boarded.data.fill(200, y * SIZE + Math.round(left), y * SIZE + Math.round(right));
    const seen = await follow([free, free, boarded, boarded, free]);
    expect(seen.map((one) => one.face !== undefined)).not.toContain(false);
    expect(seen.map(({ covered }) => covered)).toEqual([false, false, true, true, false]);
  });

  it('is another one after a cut, of which the frame tells', async () => {
    const [a, b] = [frame('astronaut.png'), frame('grace_hopper.jpg')];
    const seen = await follow([a, a, b, b]);
    expect(seen.map(({ cut }) => cut)).toEqual([false, false, true, false]);
    const alone = await follow([b]);
    expect(shift(seen[2]?.face as never, alone[0]?.face as never)).toBeLessThan(0.01);
  });
});
