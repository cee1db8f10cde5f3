import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';

const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
/** A photograph of five women on stairs, 1920 × 1398. */
export const GROUP = join(DEMO, 'sample5.jpg');
/** A photograph of three women on a sofa, 1920 × 1350. */
const THREE = join(DEMO, 'sample3.jpg');

/** Writes the portraits of two women of another photograph. */
export async function cutPortraits(pathOf: (name: string) => string): Promise<[string, string]> {
  const rects = [
    { left: 500, top: 250, width: 400, height: 480 },
    { left: 980, top: 130, width: 400, height: 500 },
  ];
  const paths = await Promise.all(
    rects.map(async (rect, i) => {
      const path = pathOf(`woman-${i}.png`);
      await sharp(THREE).extract(rect).png().toFile(path);
      return path;
    }),
  );
  return paths as [string, string];
}

/** Finds and describes faces apart from the engine. */
export async function openEyes() {
  const [blazeface, facemesh, faceres] = await Promise.all(
    (['blazeface', 'facemesh', 'faceres'] as const).map((name) => openSession(name)),
  );
  if (!blazeface || !facemesh || !faceres) throw new Error('a network is missing');
  const finder = new FaceFinder({ blazeface, facemesh });
  const recogniser = new FaceRecogniser(faceres);
  return {
    find: (picture: Picture): Promise<readonly Face[]> => {
      const smallest = 0.04 * Math.min(picture.width, picture.height);
      return finder.findUpright(picture, smallest, () => undefined);
    },
    describe: (picture: Picture, face: Face) => recogniser.describe(cropsOf(picture), face),
  };
}
