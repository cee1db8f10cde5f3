import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import { sample } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { prepareSource } from './source-face.ts';

/** A picture of three women; the second has her hair tied back and a bare forehead. */
const BARE = join(
  dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')),
  ...['..', 'demo', 'sample3.jpg'],
);

let finder: FaceFinder;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
});

/** Returns how much of the face itself is visible at points of its mesh. */
async function seenAt(file: string, place: number, points: readonly number[]): Promise<number[]> {
  const picture = await readPicture(file);
  const faces = await finder.find(picture, () => undefined);
  faces.sort((a, b) => (a.points[0] as number) - (b.points[0] as number));
  const source = prepareSource(picture, faces[place] as Face, 200);
  return points.map((index) => {
    const [x, y] = [source.points[index * 3] as number, source.points[index * 3 + 1] as number];
    return sample(source.visible, x * source.visibleScale, y * source.visibleScale);
  });
}

describe('a fringe on the source', () => {
  it('is not carried over, though it is nearly as fair as skin', async () => {
    // Points along the upper end of the replaced forehead, then between the brows, on the brows and on a cheek.
    const seen = await seenAt(ASTRONAUT, 0, [69, 108, 151, 337, 299, 9, 105, 334, 205]);
    for (const share of seen.slice(0, 5)) expect(share).toBeLessThan(0.3);
    // A strand of hair touches one of the brows.
    for (const share of seen.slice(5)) expect(share).toBeGreaterThan(0.85);
  });

  it('is not seen on a bare forehead', async () => {
    for (const share of await seenAt(BARE, 1, [10, 109, 151, 9, 105, 334]))
      expect(share).toBeGreaterThan(0.9);
  });
});
