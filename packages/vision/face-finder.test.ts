import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { expect, it } from 'vitest';
import { FaceFinder, meshDistance } from './face-finder.ts';
import { cropsOf, type Face, faceFromPoints } from './face-mesh.ts';
import { openSession } from './models/session.ts';

/** Mean distance of two meshes, in face widths. */
const apart = (a: Face, b: Face): number => meshDistance(a, b) / a.width;

it('follows a face that moved fast, although the first crop cuts it', async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const picture = await readPicture(ASTRONAUT);
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('no face was found');
  const by = [0.3 * face.width, 0.2 * face.width, 0];
  const expected = faceFromPoints(
    face.points.map((value, i) => value + (by[i % 3] as number)),
    1,
  );
  const crops = cropsOf(picture);
  expect(apart(face, await finder.refitFrom(crops, expected))).toBeGreaterThan(0.05);
  expect(apart(face, await finder.followFrom(crops, expected))).toBeLessThan(0.02);
});
