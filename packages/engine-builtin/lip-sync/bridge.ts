import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { brightnessUnder, likeness } from '../video-swap/likeness.ts';
import { LONGEST_GAP } from '../video-swap/track.ts';
import { growth, shift } from './main-face.ts';
import type { TrackedFrame } from './steady-face.ts';

/** Correlation with the last or next visible face from which a frame counts as showing it. */
const LIKE = 0.55;
/** Largest motion or growth of a lost face, as shares of its width; beyond it, it is another face. */
const MAX_SHIFT = 0.9;
const MAX_GROWTH = 0.35;

/** A visible face, and the brightness under its mesh before anything was drawn. */
interface Seen {
  readonly face: Face;
  readonly brightness: Float32Array;
}

/**
 * Interpolates the mesh in frames in which a face was lost for a short time, as by a blur. A frame that does not
 * look like the face, as when a hand is in front of it, stays without a mesh.
 */
export async function* bridged(frames: AsyncIterable<TrackedFrame>): AsyncGenerator<TrackedFrame> {
  let before: Seen | undefined;
  let lost: TrackedFrame[] = [];
  for await (const frame of frames) {
    if (frame.cut) {
      yield* lost;
      lost = [];
      before = undefined;
    }
    if (frame.face) {
      const after = { face: frame.face, brightness: brightnessUnder(frame.frame, frame.face.points) };
      yield* before ? between(lost, before, after) : lost;
      lost = [];
      before = after;
      yield frame;
      continue;
    }
    lost.push(frame);
    if (before && lost.length <= LONGEST_GAP) continue;
    yield* lost;
    lost = [];
    before = undefined;
  }
  yield* lost;
}

function* between(lost: readonly TrackedFrame[], before: Seen, after: Seen): Generator<TrackedFrame> {
  const [a, b] = [before.face, after.face];
  if (shift(a, b) > MAX_SHIFT || growth(a, b) > MAX_GROWTH) {
    yield* lost;
    return;
  }
  for (const [i, frame] of lost.entries()) {
    const share = (i + 1) / (lost.length + 1);
    const points = a.points.map((value, k) => value + ((b.points[k] as number) - value) * share);
    const here = brightnessUnder(frame.frame, points);
    const like = Math.max(likeness(here, before.brightness), likeness(here, after.brightness));
    yield like < LIKE ? frame : { ...frame, face: faceFromPoints(points, Math.min(a.score, b.score)) };
  }
}
