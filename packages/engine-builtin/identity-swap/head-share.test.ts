import type { Picture } from '@semblance/engine-api/picture';
import { ADMIRAL } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { pointOf } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { openSession } from '@semblance/vision/models/session';
import { cropRgb } from '@semblance/vision/picture';
import { plane } from '@semblance/vision/plane/plane';
import { expect, it } from 'vitest';
import { faceFrame } from '../animate/face-frame.ts';
import { headShare } from './head-share.ts';

/** Eye distance at which the head is looked at. */
const IOD = 40;
const NAVY = [24, 32, 84] as const;

it('has no shoulder or collar beside the mouth', async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const picture: Picture = await readFace(ADMIRAL, 'The picture');
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('no face');
  const scale = faceFrame(face.points).iod / IOD;
  const [width, height] = [Math.round(picture.width / scale), Math.round(picture.height / scale)];
  const image = cropRgb(picture, { scale, angle: 0, originX: 0, originY: 0 }, width, height);
  const points = face.points.map((value) => value / scale);
  const chin = pointOf(points, 152);
  // The shoulders are raised nearly to the height of the nose.
  const [jaw, top] = [1.15 * IOD, chin.y - 0.9 * IOD];
  for (let y = Math.round(top); y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (Math.abs(x - chin.x) > jaw) image.data.set(NAVY, (y * width + x) * 3);
    }
  }
  const share = headShare(image, plane(width, height, 1), { points, frame: faceFrame(points) });
  const at = (right: number, down: number): number =>
    share.data[Math.round(chin.y + down * IOD) * width + Math.round(chin.x + right * IOD)] as number;
  for (const right of [-1.7, -1.4, 1.4, 1.7]) expect(at(right, -0.8), String(right)).toBeLessThan(0.05);
  for (const right of [-0.6, 0, 0.6]) expect(at(right, -0.8), String(right)).toBeGreaterThan(0.95);
});
