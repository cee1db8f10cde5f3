/**
 * Collects crops for tools/train-face-check/train.ts: the places of pictures on which the finder settles, upright, as
 * PNG files.
 *
 *     node tools/train-face-check/collect.ts OUT LIST [VARIANT,...] [--masks] [--anywhere]
 *
 * LIST names a text file with one path of a picture in each line. `--masks` also collects each face with a drawn
 * mask; `--anywhere` also collects places on which the mesh settles when it starts anywhere, for pictures without
 * faces.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { seeded } from '@semblance/testkit/sound/random';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, FaceMesher, placeOf } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb, squareCrop } from '@semblance/vision/picture';
import sharp from 'sharp';
import { CROP, CROP_SCALE } from './crops.ts';
import { masked, VARIANTS, variant } from './variants.ts';

/** Number of places tried in a picture, kept places at most, and least score of the mesh on a kept one. */
const TRIES = 40;
const KEPT = 4;
const LEAST_SCORE = 0.1;

const [out, list, ...rest] = process.argv.slice(2);
if (!out || !list) throw new Error('usage: collect.ts OUT LIST [VARIANT,...] [--masks] [--anywhere]');
const flags = new Set(rest.filter((word) => word.startsWith('--')));
const variants = rest.find((word) => !word.startsWith('--'))?.split(',') ?? VARIANTS;
const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
const finder = new FaceFinder({ blazeface, facemesh });
const mesher = new FaceMesher(facemesh);
await mkdir(out, { recursive: true });

const files = (await readFile(list, 'utf8')).split('\n').filter((line) => line !== '');
let count = 0;
for (const [index, file] of files.entries()) {
  const name = basename(file, extname(file));
  for (const [k, kind] of variants.entries()) {
    const seed = index * VARIANTS.length + k;
    const picture = await variant(file, kind, seed);
    const faces = await finder.find(picture, () => undefined);
    await keep(`${name}.${kind}`, picture, faces);
    if (flags.has('--masks') && faces[0]) {
      const covered = await masked(picture, faces[0], seed);
      await keep(`${name}.${kind}-masked`, covered, await finder.find(covered, () => undefined));
    }
  }
  if (flags.has('--anywhere')) {
    const picture = await variant(file, 'plain', index);
    await keep(`${name}.anywhere`, picture, await settled(picture, index));
  }
}
console.log(`${count} crops of ${files.length} pictures`);

/** Returns where the mesh settles from places drawn at random, best first. */
async function settled(picture: Picture, seed: number): Promise<Face[]> {
  const random = seeded(seed);
  const faces: Face[] = [];
  const shorter = Math.min(picture.width, picture.height);
  for (let i = 0; i < TRIES; i++) {
    const side = shorter * (0.15 + 0.5 * random());
    const [x, y] = [random() * (picture.width - side), random() * (picture.height - side)];
    const tilt = random() < 0.7 ? 0 : 0.7 * (random() - 0.5);
    const keyPoints = [-1, 1].map((across) => ({
      x: x + (side / 2) * (1 + 0.4 * across * Math.cos(tilt)),
      y: y + side * (0.4 + 0.2 * across * Math.sin(tilt)),
    }));
    const face = await mesher.fit(picture, { score: 1, x, y, width: side, height: side, keyPoints });
    const apart = faces.every(
      (other) =>
        Math.hypot(
          ...([12, 13] as const).map((p) => (face.points[p] as number) - (other.points[p] as number)),
        ) >
        0.3 * face.width,
    );
    if (face.score >= LEAST_SCORE && face.width > 10 && placeOf(face).side < 2 * shorter && apart)
      faces.push(face);
  }
  return faces.sort((a, b) => b.score - a.score).slice(0, KEPT);
}

async function keep(name: string, picture: Picture, faces: readonly Face[]): Promise<void> {
  for (const [k, face] of faces.entries()) {
    const { center, side } = placeOf(face);
    const { data } = cropRgb(picture, squareCrop(center, CROP_SCALE * side, face.roll, CROP), CROP, CROP);
    const raw = { width: CROP, height: CROP, channels: 3 } as const;
    const png = await sharp(Buffer.from(Uint8ClampedArray.from(data)), { raw })
      .png()
      .toBuffer();
    await writeFile(join(out as string, `${name}.${k}.png`), png);
    count++;
  }
}
