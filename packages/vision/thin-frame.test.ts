import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { coverCrop, showsFrame } from './face-cover.ts';
import { FaceFinder } from './face-finder.ts';
import { cropsOf, type Face } from './face-mesh.ts';
import { openSession } from './models/session.ts';
import { thinFrame, thinLines } from './thin-frame.ts';

const MEDIA = join(import.meta.dirname, '..', '..', 'media');
const SIZE = 96;

let finder: FaceFinder;
let bare: Portrait;
let glazed: Portrait;

interface Portrait {
  readonly picture: Picture;
  readonly face: Face;
}

beforeAll(async () => {
  const names = ['blazeface', 'facemesh', 'face_cover'] as const;
  const [blazeface, facemesh, face_cover] = await Promise.all(names.map(openSession));
  if (!blazeface || !facemesh || !face_cover) throw new Error('a network is missing');
  finder = new FaceFinder({ blazeface, facemesh, face_cover });
  const image = sharp(join(MEDIA, 'astronaut.png')).removeAlpha().toColourspace('srgb');
  const { data, info } = await image.raw().toBuffer({ resolveWithObject: true });
  const picture: Picture = { width: info.width, height: info.height, channels: 3, data };
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('no face');
  bare = { picture, face };
  glazed = { picture: await withLines(picture, face), face };
});

/** Draws what is seen of glasses without rims: a thin bridge, and thin temples. */
async function withLines({ width, height, data }: Picture, { points }: Face): Promise<Picture> {
  const at = (i: number): [number, number] => [points[i * 3] as number, points[i * 3 + 1] as number];
  const [a, b, c, d, e, f] = [133, 362, 33, 263, 127, 356].map(at) as [number, number][];
  const line = ([x0, y0]: [number, number], [x1, y1]: [number, number], up: number): string =>
    `<path d="M${x0} ${y0 - up} L${x1} ${y1 - up}" stroke="#4a3428" stroke-width="1.6" fill="none"/>`;
  const lines = [
    line(a as never, b as never, 3),
    line(c as never, e as never, 4),
    line(d as never, f as never, 4),
  ];
  const svg = Buffer.from(`<svg width="${width}" height="${height}">${lines.join('')}</svg>`);
  const drawn = sharp(data, { raw: { width, height, channels: 3 } }).composite([{ input: svg }]);
  return { width, height, channels: 3, data: new Uint8Array(await drawn.removeAlpha().raw().toBuffer()) };
}

const frameOf = ({ picture, face }: Portrait, suspected: number) =>
  thinFrame(cropsOf(picture), face, { suspected: [suspected, 0, 0], crop: coverCrop(face), size: SIZE });

describe('thin lines where glasses lie', () => {
  it('are seen where they are, and not on a bare face', () => {
    expect(thinLines(cropsOf(glazed.picture), glazed.face).seen).toBeGreaterThan(0.9);
    expect(thinLines(cropsOf(bare.picture), bare.face).seen).toBeLessThan(0.4);
  });

  it('lie over the nose and beside both eyes', () => {
    const { lines } = thinLines(cropsOf(glazed.picture), glazed.face);
    expect(lines).toHaveLength(3);
    for (const [k, points] of [
      [0, [133, 362]],
      [1, [33, 127]],
      [2, [263, 356]],
    ] as const) {
      const [first, last] = points.map((i) => glazed.face.points[i * 3] as number) as [number, number];
      const [left, right] = [Math.min(first, last), Math.max(first, last)];
      for (const { x } of lines[k] ?? []) {
        expect(x).toBeGreaterThan(left - 2);
        expect(x).toBeLessThan(right + 2);
      }
    }
  });
});

describe('glasses without rims', () => {
  it('are a frame through which the eyes are seen, where a network suspects one and lines are seen', () => {
    const frame = frameOf(glazed, 0.01);
    expect(frame && showsFrame(frame, glazed.face)).toBe(true);
  });

  it('are none where only one of both is true', () => {
    expect(frameOf(glazed, 0.001)).toBeUndefined();
    expect(frameOf(bare, 0.04)).toBeUndefined();
  });

  it('are looked for when they are asked for', async () => {
    const { picture, face } = glazed;
    const [without, thin] = await Promise.all(
      [false, true].map((asked) => finder.coverOf(cropsOf(picture), face, asked)),
    );
    expect(without && showsFrame(without, face)).toBe(false);
    expect(thin && showsFrame(thin, face)).toBe(true);
  });
});
