/**
 * Collects crops for tools/train-face-cover/train.py: faces of portraits, bare and with drawn objects in front.
 *
 *     node tools/train-face-cover/collect.ts FOLDER OUT
 *
 * FOLDER holds portraits `p000.jpg` and so on. OUT receives `NAME.bin`, where each crop is {@link SIDE} × {@link SIDE}
 * pixels of red, green, blue and the share that the object covers, and `NAME.json`, a line for each crop. NAME is
 * `train` or `held-out`.
 */
import { appendFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { CROP, coverCrop } from '@semblance/vision/face-cover';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb } from '@semblance/vision/picture';
import type { Plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { OCCLUDERS, type OccluderName, occlude } from '../../test/bench/realism/cases/occlude.ts';
import { heldOut, type Portrait, readPortraits } from '../../test/bench/realism/cases/portrait.ts';

/** Side of a collected crop in pixels; it is wider than the network's, so that training can move it. */
const SIDE = 128;
const WIDER = 1.25;
/** Face width at which objects are drawn, in pixels. */
const WIDTH = 205;
/** Of all objects, each portrait gets one in so many, in turn. */
const EACH = { train: 2, 'held-out': 4 } as const;
/** Objects that the network never sees, so that the bench shows how it does on unknown ones. */
const UNSEEN: readonly OccluderName[] = ['mug', 'caption', 'mask-patterned', 'half-rim-glasses'];
/** Glasses are many kinds in one, and thin, so each portrait for training gets so many pairs. */
const PAIRS_OF_GLASSES = 4;
/**
 * Numbers of the portraits whose people wear glasses or an eye patch. They are no bare faces, so none is trained
 * with; all are saved as unknown glasses.
 */
const WEARING = new Set([
  3, 4, 8, 20, 26, 29, 32, 38, 51, 54, 56, 65, 71, 72, 81, 84, 97, 99, 102, 103, 109, 116, 128, 132, 139, 140,
  141, 142, 169, 170, 175, 176, 186, 190, 199, 207, 209, 211, 216, 229, 231, 235, 238, 242, 243, 258, 267,
]);

const [folder, out] = process.argv.slice(2);
if (!folder || !out) throw new Error('usage: collect.ts FOLDER OUT');
const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
const finder = new FaceFinder({ blazeface, facemesh });
const portraits = await readPortraits(folder, finder);
await mkdir(out, { recursive: true });
for (const name of ['train', 'held-out'])
  for (const ending of ['bin', 'json']) await rm(join(out, `${name}.${ending}`), { force: true });
let done = 0;
for (const portrait of portraits) {
  const scaled = await atWidth(portrait);
  if (!scaled) continue;
  const { picture, face } = scaled;
  if (WEARING.has(Number(portrait.label.slice(1)))) {
    await save('held-out', portrait, 'worn-glasses', picture, face);
    done++;
    continue;
  }
  const set = heldOut(portrait) ? 'held-out' : 'train';
  await save(set, portrait, 'none', picture, face);
  for (const [k, name] of OCCLUDERS.entries()) {
    if (set === 'train' && UNSEEN.includes(name)) continue;
    const many = set === 'train' && name === 'clear-glasses';
    if (!many && (done + k) % EACH[set] !== 0) continue;
    for (let pair = 0; pair < (many ? PAIRS_OF_GLASSES : 1); pair++) {
      const seed = 1000 + done * 31 + k + 10_000 * pair;
      const { picture: covered, mask } = await occlude(name, picture, face, seed);
      await save(set, portrait, name, covered, face, mask);
    }
  }
  done++;
  console.log(`${done} of ${portraits.length} portraits`);
}

async function atWidth({ picture, face }: Portrait): Promise<{ picture: Picture; face: Face } | undefined> {
  const { width, height, channels } = picture;
  const image = sharp(Buffer.from(picture.data.buffer, picture.data.byteOffset, picture.data.byteLength), {
    raw: { width, height, channels: channels as 3 },
  });
  const { data, info } = await image
    .resize(Math.round((width * WIDTH) / face.width))
    .raw()
    .toBuffer({ resolveWithObject: true });
  const small: Picture = { width: info.width, height: info.height, channels: 3, data };
  const [found] = await finder.find(small, () => undefined);
  return found && { picture: small, face: found };
}

async function save(
  set: string,
  { label }: Portrait,
  kind: string,
  picture: Picture,
  face: Face,
  mask?: Plane,
): Promise<void> {
  const crop = coverCrop(face, WIDER * CROP, SIDE);
  const image = cropRgb(picture, crop, SIDE, SIDE, 2);
  const covered = mask && cropRgb(greyOf(mask), crop, SIDE, SIDE, 2);
  const bytes = new Uint8Array(SIDE * SIDE * 4);
  for (let i = 0; i < SIDE * SIDE; i++) {
    for (let c = 0; c < 3; c++) bytes[i * 4 + c] = Math.round(image.data[i * 3 + c] as number);
    bytes[i * 4 + 3] = covered ? Math.round(covered.data[i * 3] as number) : 0;
  }
  await appendFile(join(out as string, `${set}.bin`), bytes);
  await appendFile(join(out as string, `${set}.json`), `${JSON.stringify({ label, kind })}\n`);
}

function greyOf({ width, height, data }: Plane): Picture {
  return { width, height, channels: 1, data: Uint8Array.from(data, (share) => Math.round(255 * share)) };
}
