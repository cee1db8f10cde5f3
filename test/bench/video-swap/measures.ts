import { readFile } from 'node:fs/promises';
import { cropsOfFrame } from '@semblance/engine-builtin/internal/video-swap/mesh-crop';
import { FaceTracker } from '@semblance/engine-builtin/video-swap/tracker';
import type { VideoFrame } from '@semblance/media/types';
import { COLOR, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { inScene } from './scenes.ts';

const RUN = 10;

/**
 * Returns two meshes per frame of a clip of one face: those that swaps are drawn on, and those that the network
 * fits.
 */
export async function followFace(
  finder: FaceFinder,
  frames: readonly VideoFrame[],
): Promise<{ drawn: Face[]; fitted: Face[] }> {
  const tracker = new FaceTracker(finder, COLOR, () => undefined);
  const drawn: Face[] = [];
  const fitted: Face[] = [];
  const take = (from: number, to: number): void => {
    for (let i = from; i < Math.min(to, frames.length); i++) {
      const face = tracker.facesIn(i)[0]?.face;
      if (face) drawn.push(face);
    }
  };
  for (let at = 0; at < frames.length; at += RUN) {
    await tracker.follow(frames.slice(at, at + RUN), frames.slice(Math.max(0, at - RUN), at));
    take(at - RUN < 0 ? at : at - RUN, at);
  }
  tracker.end(frames.length - 1);
  take(Math.floor((frames.length - 1) / RUN) * RUN, frames.length);
  for (const [i, frame] of frames.entries()) {
    const last = fitted.at(-1) ?? drawn[i];
    if (!last) continue;
    fitted.push(await finder.refitFrom(cropsOfFrame(frame, COLOR), last));
  }
  return { drawn, fitted };
}

/**
 * Returns how much the mesh moves from frame to frame, beyond the motion of the camera. The value is the root mean
 * square over points and frames, in percent of the distance between the eyes. The camera's motion is known, so the
 * meshes are compared in coordinates of the still picture.
 */
export function jitter(scene: Scene, faces: readonly Face[]): number {
  let sum = 0;
  let count = 0;
  for (let f = 1; f < faces.length; f++) {
    const [a, b] = [faces[f - 1] as Face, faces[f] as Face];
    const at = (face: Face, frame: number, index: number) =>
      inScene(scene, frame, face.points[index * 3] as number, face.points[index * 3 + 1] as number);
    const [right, left] = [at(b, f, 33), at(b, f, 263)];
    const eyes = Math.hypot(right.x - left.x, right.y - left.y);
    for (let i = 0; i < 468; i++) {
      const [p, q] = [at(a, f - 1, i), at(b, f, i)];
      // The difference of two frames has twice the variance of one frame.
      sum += ((p.x - q.x) ** 2 + (p.y - q.y) ** 2) / 2 / eyes ** 2;
      count++;
    }
  }
  return 100 * Math.sqrt(sum / count);
}

/** Returns the mean brightness inside the outline of a face. */
function faceBrightness({ width, height, data }: VideoFrame, face: Face): number {
  const xs = FACE_OVAL.map((i) => face.points[i * 3] as number);
  const ys = FACE_OVAL.map((i) => face.points[i * 3 + 1] as number);
  const [cx, cy] = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
  const [rx, ry] = [(Math.max(...xs) - Math.min(...xs)) / 2, (Math.max(...ys) - Math.min(...ys)) / 2];
  let sum = 0;
  let count = 0;
  for (let y = Math.max(0, Math.ceil(cy - ry)); y < Math.min(height, cy + ry); y++) {
    for (let x = Math.max(0, Math.ceil(cx - rx)); x < Math.min(width, cx + rx); x++) {
      if (((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2 > 0.8) continue;
      sum += data[y * width + x] as number;
      count++;
    }
  }
  return sum / Math.max(1, count);
}

/**
 * Returns how much the brightness of the new face jumps from frame to frame, beyond that of the old face: mean and
 * maximum, in levels.
 */
export function flicker(
  before: readonly VideoFrame[],
  after: readonly VideoFrame[],
  faces: readonly Face[],
): { mean: number; most: number } {
  const difference = faces.map((face, i) => {
    return faceBrightness(after[i] as VideoFrame, face) - faceBrightness(before[i] as VideoFrame, face);
  });
  const steps = difference.slice(1).map((value, i) => Math.abs(value - (difference[i] as number)));
  return { mean: steps.reduce((a, b) => a + b, 0) / steps.length, most: Math.max(...steps) };
}

/** Returns the CPU seconds of this process and its ended children; undefined where there is no /proc. */
export async function processorTime(): Promise<number | undefined> {
  const text = await readFile('/proc/self/stat', 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  // The name, in parentheses, may contain any character. Times are in hundredths of a second.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field) / 100, 0);
}
