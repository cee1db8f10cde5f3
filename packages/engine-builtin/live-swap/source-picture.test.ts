import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { ADMIRAL, ASTRONAUT, PROFESSOR } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { openSession } from '@semblance/vision/models/session';
import type { RgbImage } from '@semblance/vision/picture';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { prepareSource } from '../swap/source-face.ts';
import type { SwapSource } from '../video-swap/swap-protocol.ts';
import { cutSource, findMain, readSource } from './source-picture.ts';

/**
 * Face widths that a stream requests: a small face, a face of the recommended size, and one that fills a large
 * picture.
 */
const WIDTHS = [60, 146, 558];

let directory: string;
let finder: FaceFinder;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-source-picture-'));
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function mainFace(picture: Picture): Promise<Face> {
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('no face');
  return face;
}

const patch = ({ picture, points, score }: SwapSource, width: number) =>
  prepareSource(picture, faceFromPoints(points, score), width).image;

function differences(a: RgbImage, b: RgbImage): { mean: number; most: number } {
  expect([a.width, a.height]).toEqual([b.width, b.height]);
  let [sum, most] = [0, 0];
  for (let i = 0; i < a.data.length; i++) {
    const difference = Math.abs((a.data[i] as number) - (b.data[i] as number));
    sum += difference;
    most = Math.max(most, difference);
  }
  return { mean: sum / a.data.length, most };
}

describe('the part of a picture that is kept', () => {
  it.each([
    ['as they are', ASTRONAUT, 0],
    ['as they are', ADMIRAL, 0],
    ['as they are', PROFESSOR, 0],
    ['turned', ASTRONAUT, 37],
    ['turned', ADMIRAL, -80],
  ])('gives the same patches as the whole: portraits %s (%s, %i degrees)', async (_how, file, degrees) => {
    const path = join(directory, 'turned.png');
    await sharp(file).rotate(degrees, { background: '#808080' }).toFile(path);
    const picture = await readFace(path);
    const face = await mainFace(picture);
    const kept = cutSource(picture, face);
    expect(kept.picture.data.length).toBeLessThan(picture.data.length);
    for (const width of WIDTHS)
      expect(differences(patch(kept, width), patch({ picture, ...face }, width)).most).toBeLessThan(1e-3);
  });

  it('does so where the face reaches over the edge of the picture', async () => {
    const { width: w, height: h } = await sharp(ASTRONAUT).metadata();
    const face = await mainFace(await readFace(ASTRONAUT));
    const [left, top] = [
      Math.round(face.points[4 * 3] as number) - 60,
      Math.round(face.points[4 * 3 + 1] as number) - 70,
    ];
    const path = join(directory, 'close.png');
    await sharp(ASTRONAUT)
      .extract({ left, top, width: Math.min(120, w - left), height: Math.min(140, h - top) })
      .toFile(path);
    const picture = await readFace(path);
    const close = await mainFace(picture);
    const kept = cutSource(picture, close);
    for (const width of WIDTHS)
      expect(differences(patch(kept, width), patch({ picture, ...close }, width)).most).toBeLessThan(1e-3);
  });

  it('is no larger than a stream has use for, and its memory shared', async () => {
    const path = join(directory, 'close-up.jpg');
    await sharp(ASTRONAUT).resize(4000).jpeg().toFile(path);
    const source = await readSource(path, finder);
    const { picture } = source;
    expect(Math.max(picture.width, picture.height)).toBeLessThan(1300);
    expect(picture.data.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect(picture.data.buffer.byteLength).toBe(picture.width * picture.height * 3);
    const whole = await readFace(path);
    const face = await findMain(whole, finder);
    if (!face) throw new Error('no face');
    for (const width of WIDTHS)
      expect(differences(patch(source, width), patch({ picture: whole, ...face }, width)).mean).toBeLessThan(
        2,
      );
  });
});

describe('a large picture', () => {
  /** Returns the mean distance of the mesh from a search in the whole picture, as a share of the face width. */
  async function aside(path: string): Promise<number> {
    const picture = await readFace(path);
    const whole = await mainFace(picture);
    const face = await findMain(picture, finder);
    if (!face) throw new Error('no face');
    let sum = 0;
    for (let i = 0; i < face.points.length; i += 3) {
      const [x, y] = [0, 1].map((k) => (face.points[i + k] as number) - (whole.points[i + k] as number));
      sum += Math.hypot(x as number, y as number);
    }
    return (sum / whole.points.length) * (3 / whole.width);
  }

  it.each([ASTRONAUT, ADMIRAL, PROFESSOR])('of a face is read as if searched in full (%s)', async (file) => {
    const path = join(directory, 'large.jpg');
    await sharp(file).resize(3500, 3500, { fit: 'inside' }).jpeg().toFile(path);
    const d = await aside(path);
    expect(d).toBeLessThan(0.03);
  });

  it('shows a face also where it is a small part of it', async () => {
    const path = join(directory, 'far.jpg');
    const person = await sharp(ASTRONAUT).resize(800).toBuffer();
    await sharp({ create: { width: 4000, height: 3000, channels: 3, background: '#8090a0' } })
      .composite([{ input: person, left: 2100, top: 1700 }])
      .jpeg()
      .toFile(path);
    const d = await aside(path);
    expect(d).toBeLessThan(0.03);
  });

  it.each([
    [4000, 3000],
    [7200, 5400],
  ])('without a face is refused after few runs of the detector: %i × %i', async (width, height) => {
    const path = join(directory, 'nobody.png');
    await sharp({ create: { width, height, channels: 3, background: '#8090a0' } }).toFile(path);
    let runs = 0;
    const blazeface = {
      inputNames: ['input'],
      run: async () => {
        runs++;
        const none = { data: new Float32Array(0) };
        return { scores16: none, boxes16: none, scores32: none, boxes32: none };
      },
    };
    const counted = new FaceFinder({ blazeface: blazeface as never, facemesh: {} as never });
    await expect(readSource(path, counted)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: 'No face was found in the picture of the face.',
    });
    expect(runs).toBeGreaterThan(0);
    expect(runs).toBeLessThan(150);
  });
});
