/**
 * Trains a classifier of packages/vision/face-check.ts on crops that collect.ts collected, and writes its weights.
 * The same crops give the same weights. It prints how crops score whose pictures the classifier was not trained with
 * (five folds over pictures).
 *
 *     node tools/train-face-check/train.ts first|second FACES,... OTHERS,...
 *
 * `first` and `second` name the look whose classifier is trained.
 * FACES and OTHERS are folders of crops that show faces, and of crops that show none. Each folder is a kind of
 * picture.
 */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CropSource, cropsOf, FaceMesher, type Place } from '@semblance/vision/face-mesh';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { FaceCheck, FEATURES, stretched } from '@semblance/vision/internal/face-check';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { type Example, trainClassifier } from './classifier.ts';
import { CROP, CROP_SCALE } from './crops.ts';

const FOLDS = 5;

interface Crop extends Example {
  /** Name of the picture. */
  readonly picture: string;
  /** Name of the file. */
  readonly name: string;
}

const [look, ...lists] = process.argv.slice(2);
const [faces, others] = lists.map((folders) => folders.split(','));
const file = look && { first: 'face-check-weights.json', second: 'face-check-descriptor-weights.json' }[look];
if (!file || !faces || !others) throw new Error('usage: train.ts first|second FACES,... OTHERS,...');
const untrained = { bias: 0, weights: new Float32Array(FEATURES) };
const [features, facemesh, faceres] = await Promise.all([
  openSession('face_features'),
  openSession('facemesh'),
  openSession('faceres'),
]);
const check = new FaceCheck(features, { mesher: new FaceMesher(facemesh), weights: untrained });
const recogniser = new FaceRecogniser(faceres);
const valuesAt = async (source: CropSource, place: Place): Promise<Float32Array[]> =>
  look === 'first' ? check.features(source, place) : [await recogniser.describeAt(stretched(source), place)];
const crops = [...(await read(faces, true)), ...(await read(others, false))];
report(crops);
const { bias, weights } = trainClassifier(crops);
// Eight bits are as good as more.
const scale = Math.max(...weights.map(Math.abs)) / 127;
const bytes = Int8Array.from(weights, (w) => Math.round(w / scale));
const trained = {
  bias: Number(bias.toFixed(4)),
  scale,
  weights: Buffer.from(bytes.buffer).toString('base64'),
};
const path = join(import.meta.dirname, '..', '..', 'packages', 'vision', file);
await writeFile(path, `${JSON.stringify(trained, null, 2)}\n`);

async function read(folders: readonly string[], face: boolean): Promise<Crop[]> {
  const read: Crop[] = [];
  for (const folder of folders) {
    const names = (await readdir(folder)).filter((name) => name.endsWith('.png'));
    for (const name of names.sort()) {
      const data = new Uint8Array(await sharp(join(folder, name)).removeAlpha().raw().toBuffer());
      const picture = { width: CROP, height: CROP, channels: 3, data } as const;
      const place = { center: { x: CROP / 2, y: CROP / 2 }, side: CROP / CROP_SCALE, roll: 0 };
      for (const values of await valuesAt(cropsOf(picture), place))
        read.push({ features: values, face, kind: folder, name, picture: name.split('.')[0] as string });
    }
  }
  return read;
}

function report(all: readonly Crop[]): void {
  const pictures = [...new Set(all.map(({ picture }) => picture))].sort();
  const fold = new Map(pictures.map((picture, i) => [picture, i % FOLDS]));
  const held: { crop: Crop; sum: number }[] = [];
  for (let k = 0; k < FOLDS; k++) {
    const { bias, weights } = trainClassifier(all.filter(({ picture }) => fold.get(picture) !== k));
    for (const crop of all.filter(({ picture }) => fold.get(picture) === k)) {
      held.push({ crop, sum: crop.features.reduce((sum, v, i) => sum + v * (weights[i] as number), bias) });
    }
  }
  for (const face of [true, false]) {
    const sums = held.filter(({ crop }) => crop.face === face).sort((a, b) => a.sum - b.sum);
    const at = (share: number): string => sums[Math.floor(share * (sums.length - 1))]?.sum.toFixed(2) ?? '-';
    const shares = [0.002, 0.01, 0.05, 0.5, 0.95, 0.99, 0.998];
    console.log(
      face ? 'faces' : 'others',
      sums.length,
      shares.map((s) => `${100 * s}%: ${at(s)}`).join('  '),
    );
    const worst = face ? sums.slice(0, 12) : sums.slice(-12).reverse();
    for (const { crop, sum } of worst) console.log(`  ${sum.toFixed(2)} ${crop.name}`);
  }
}
