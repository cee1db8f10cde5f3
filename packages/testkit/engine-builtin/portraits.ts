import type { Picture } from '@semblance/engine-api/picture';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { readPicture } from './video-swap/clips.ts';

/** A picture and the most prominent face in it. */
export interface Portrait {
  readonly picture: Picture;
  readonly face: Face;
}

/**
 * Opens pictures and finds the face in each.
 * @throws Error naming the file without a face
 */
export async function openPortraits(...files: readonly string[]): Promise<Portrait[]> {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const portraits: Portrait[] = [];
  for (const file of files) {
    const picture = await readPicture(file);
    const [face] = await finder.find(picture, () => undefined);
    if (!face) throw new Error(`no face was found in ${file}`);
    portraits.push({ picture, face });
  }
  return portraits;
}
