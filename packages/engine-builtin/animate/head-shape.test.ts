import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { type FaceFrame, faceFrame } from './face-frame.ts';
import { headShape } from './head-shape.ts';
import { anglesOf } from './rotation.ts';

const DEMO = join(
  dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')),
  '..',
  'demo',
  'sample6.jpg',
);
const WHOLE = { left: -1e9, right: 1e9, top: -1e9 };
let finder: FaceFinder;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
});

/** Returns how far the outline beside the farther cheek lies inside the cheek's edge, at worst, in IOD. */
function fold(points: Float32Array, { axes, iod }: FaceFrame, side: number): number {
  const norm = Math.hypot(axes[0] as number, axes[3] as number);
  const [cos, sin] = [(axes[0] as number) / norm, (axes[3] as number) / norm];
  const across = (v: number) =>
    side * ((points[v * 3] as number) * cos + (points[v * 3 + 1] as number) * sin);
  const along = (v: number) => (points[v * 3 + 1] as number) * cos - (points[v * 3] as number) * sin;
  let worst = 0;
  // From the level of the eye to that of the mouth.
  for (const v of FACE_OVAL) {
    const level = (along(v) - (along(33) + along(263)) / 2) / iod;
    if (across(v) < across(4) || level < 0.1 || level > 0.9) continue;
    for (let other = 0; other < POINTS; other++) {
      if (Math.abs(along(other) - along(v)) < 0.05 * iod)
        worst = Math.max(worst, (across(other) - across(v)) / iod);
    }
  }
  return worst;
}

describe('the shape of a head', () => {
  it('does not fold the farther cheek of a turned face back over itself, as its mesh does', async () => {
    const { face } = await subjectOf(finder, DEMO, 0, 480);
    const frame = faceFrame(face.points);
    const { yaw } = anglesOf(frame.axes);
    expect(Math.abs(yaw)).toBeGreaterThan(0.15);
    expect(fold(face.points, frame, Math.sign(yaw))).toBeGreaterThan(0.06);
    const { rest } = headShape(face.points, frame, WHOLE);
    expect(fold(rest, frame, Math.sign(yaw))).toBeLessThan(0.02);
  });

  it('leaves a face as it is that looks at the camera', async () => {
    const { face } = await subjectOf(finder, ASTRONAUT, 0, 480);
    const frame = faceFrame(face.points);
    expect(Math.abs(anglesOf(frame.axes).yaw)).toBeLessThan(0.08);
    const { rest } = headShape(face.points, frame, WHOLE);
    expect(rest.slice(0, POINTS * 3)).toEqual(face.points);
  });
});
