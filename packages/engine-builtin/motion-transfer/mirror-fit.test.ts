import { type Subject, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { openSession } from '@semblance/vision/models/session';
import { beforeAll, describe, expect, it } from 'vitest';
import { rgbToYuv } from '../animate/yuv.ts';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';
import { fitBothWays, MIRRORED, mirroredFace } from './mirror-fit.ts';

const COLORS = { range: 'tv', space: 'bt709' } as const;
let finder: FaceFinder;
let astronaut: Subject;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  astronaut = await subjectOf(finder, ASTRONAUT, 0, 360);
});

/** Returns the astronaut's picture as a frame, or its mirror image. */
function frameOf(mirrored: boolean) {
  const { width, height, data } = astronaut.picture;
  const rgb = Uint8Array.from(data);
  if (mirrored) {
    for (let i = 0; i < width * height; i++) {
      const from = i - (i % width) + width - 1 - (i % width);
      for (let c = 0; c < 3; c++) rgb[i * 3 + c] = data[from * 3 + c] as number;
    }
  }
  return { width, height, data: rgbToYuv(rgb, width, height) };
}

/** Returns the root mean square distance of points in the picture, in pixels. */
function apart(a: Face, b: Face): number {
  let sum = 0;
  for (let i = 0; i < a.points.length; i += 3) {
    sum += ((a.points[i] as number) - (b.points[i] as number)) ** 2;
    sum += ((a.points[i + 1] as number) - (b.points[i + 1] as number)) ** 2;
  }
  return Math.sqrt(sum / (a.points.length / 3));
}

describe('the mesh in a mirror', () => {
  it('has a partner for each point, and is its own mirror image twice over', () => {
    expect(MIRRORED).toHaveLength(468);
    expect(MIRRORED.map((other) => MIRRORED[other])).toEqual(MIRRORED.map((_, i) => i));
    // Corners of eyes and mouth, lids and cheeks have partners; forehead, chin and the middle of the lips are their
    // own.
    for (const [a, b] of [
      [33, 263],
      [133, 362],
      [159, 386],
      [61, 291],
      [50, 280],
      [10, 10],
      [152, 152],
      [13, 13],
    ] as const)
      expect(MIRRORED[a]).toBe(b);
  });

  it('keeps neighbours neighbours', () => {
    const edges = new Set<string>();
    for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
      for (let k = 0; k < 3; k++) {
        const [a, b] = [FACE_TRIANGLES[t + k], FACE_TRIANGLES[t + ((k + 1) % 3)]] as [number, number];
        edges.add(`${Math.min(a, b)}-${Math.max(a, b)}`);
      }
    }
    const kept = [...edges].filter((edge) => {
      const [a, b] = edge.split('-').map((v) => MIRRORED[Number(v)]) as [number, number];
      return edges.has(`${Math.min(a, b)}-${Math.max(a, b)}`);
    });
    // A few quadrilaterals have another diagonal on the other side.
    expect(kept.length / edges.size).toBeGreaterThan(0.96);
  });

  it('fits a face and its mirror image alike, which a single look does not', async () => {
    const [frame, mirror] = [frameOf(false), frameOf(true)];
    const { width } = frame;
    const [source, back] = [cropsOfFrame(frame, COLORS), cropsOfFrame(mirror, COLORS)];
    const other = mirroredFace(astronaut.face, width);
    const once = apart(
      await finder.refitFrom(source, astronaut.face),
      mirroredFace(await finder.refitFrom(back, other), width),
    );
    const both = apart(
      await fitBothWays(finder, source, width, astronaut.face),
      mirroredFace(await fitBothWays(finder, back, width, other), width),
    );
    expect(once).toBeGreaterThan(0.01 * astronaut.face.width);
    expect(both).toBeLessThan(0.15 * once);
  });
});
