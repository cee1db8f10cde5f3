import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { readRgb, type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ADMIRAL, ASTRONAUT, PROFESSOR } from '@semblance/testkit/engine-builtin/swap-rig';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { FaceFinder } from './face-finder.ts';
import { cropsOf } from './face-mesh.ts';
import { FaceRecogniser } from './face-recogniser.ts';
import { openSession } from './models/session.ts';

const DEMO = join(
  dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')),
  '..',
  'demo',
  'sample6.jpg',
);
let finder: FaceFinder;
let recogniser: FaceRecogniser;

beforeAll(async () => {
  const [blazeface, facemesh, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('faceres'),
  ]);
  finder = new FaceFinder({ blazeface, facemesh });
  recogniser = new FaceRecogniser(faceres);
});

async function takenFor({ picture, face }: Subject): Promise<string | undefined> {
  return recogniser.takenFor(cropsOf(picture), face);
}

describe('a face', () => {
  it('is taken for a woman’s where most people would', async () => {
    for (const place of [0, 1, 2, 3])
      expect(await takenFor(await subjectOf(finder, DEMO, place, 480))).toBe('woman');
  });

  it.each([
    ['the astronaut', ASTRONAUT],
    ['the admiral in uniform and cap', ADMIRAL],
    ['the professor, who is small', PROFESSOR],
  ])('of %s is taken for nothing, because the network is not sure', async (_, file) => {
    expect(await takenFor(await subjectOf(finder, file, 0, 480))).toBeUndefined();
  });

  it('is taken for the same in its mirror image', async () => {
    const { picture, face, name } = await subjectOf(finder, DEMO, 0, 480);
    const { width, height, data } = picture;
    const mirror = await readRgb(sharp(data, { raw: { width, height, channels: 3 } }).flop());
    const [found] = await finder.find(mirror, () => undefined);
    expect(found?.width).toBeCloseTo(face.width, -1);
    expect(found && (await takenFor({ name, picture: mirror, face: found }))).toBe('woman');
  });
});
