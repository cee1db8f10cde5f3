import { rgbToRegion } from '@semblance/media/yuv';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR, readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import { expect, it } from 'vitest';
import { preparer } from './prepared-source.ts';
import { makeTexture } from './texture.ts';

/** Turns a mesh about its vertical axis. @param angle in radians */
function turned(points: Float32Array, angle: number): Float32Array {
  const middle = points.reduce((sum, x, i) => (i % 3 === 0 ? sum + x : sum), 0) / (points.length / 3);
  return points.map((value, i) => {
    const at = i - (i % 3);
    const [x, z] = [(points[at] as number) - middle, points[at + 2] as number];
    if (i % 3 === 0) return middle + Math.cos(angle) * x + Math.sin(angle) * z;
    return i % 3 === 2 ? Math.cos(angle) * z - Math.sin(angle) * x : value;
  });
}

it('covers the whole mesh of a turned source, whose nose lies beyond its outline', async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const finder = new FaceFinder({ blazeface, facemesh });
  const [target, picture] = await Promise.all([readPicture(ASTRONAUT), readPicture(ADMIRAL)]);
  const [face] = await finder.find(target, () => undefined);
  const [from] = await finder.find(picture, () => undefined);
  if (!face || !from) throw new Error('no face was found');
  const { width, height } = target;
  const frame = { width, height, data: new Uint8Array((width * height * 3) / 2) };
  rgbToRegion(frame, { x: 0, y: 0, width, height }, Float32Array.from(target.data), COLOR);
  const points = turned(from.points, 1.05);
  const source = preparer({ picture, points, score: 1 })(faceFromPoints(points, 1).width);
  const { box, points: mesh } = makeTexture({ frame, face, color: COLOR }, source);
  const across = Array.from({ length: mesh.length / 3 }, (_, i) => mesh[i * 3] as number);
  const outline = FACE_OVAL.map((index) => across[index] as number);
  expect(Math.max(...outline) < Math.max(...across) || Math.min(...outline) > Math.min(...across)).toBe(true);
  expect(box.x).toBeLessThanOrEqual(Math.min(...across));
  expect(box.x + box.width).toBeGreaterThanOrEqual(Math.max(...across));
});
