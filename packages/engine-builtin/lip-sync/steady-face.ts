import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { smoothstep } from '@semblance/vision/plane/plane';
import type { ShownFrame } from './bounce.ts';
import { growth, shift } from './main-face.ts';

/** A frame with its main face; `cut` means that the frame before showed another one, or none. */
export interface FacedFrame extends ShownFrame {
  readonly face: Face | undefined;
  readonly cut: boolean;
  readonly covered: boolean;
}

/** Frames on each side that are averaged. */
const RADIUS = 2;
const BELL = [0.375, 0.25, 0.0625] as const;
/**
 * Distance from the mean, in face widths, up to which a point jitters and from which it moves. Lips are fast: what
 * is smoothed away of them would remain in the picture as old speech.
 */
const JITTER = [0.003, 0.01] as const;
/** Largest motion of a face per frame, in face widths; beyond it, it is another face, or the same after a cut. */
const JUMP = 0.25;

export interface TrackedFrame extends ShownFrame {
  readonly face: Face | undefined;
  /** The frame is known to begin another shot. */
  readonly cut?: boolean;
  /** Something is in front of the mouth. */
  readonly covered?: boolean;
}

/** Removes the jitter of faces by a mean over the frames around each, which has no lag. */
export async function* steadyFaces(frames: AsyncIterable<TrackedFrame>): AsyncGenerator<FacedFrame> {
  const window: TrackedFrame[] = [];
  let at = 0;
  const take = function* (): Generator<FacedFrame> {
    const { frame, startUs, covered } = window[at] as TrackedFrame;
    yield {
      frame,
      startUs,
      covered: covered ?? false,
      face: steady(window, at),
      cut: !joined(window, at - 1),
    };
    if (at < RADIUS) at++;
    else window.shift();
  };
  for await (const frame of frames) {
    window.push(frame);
    if (window.length - at > RADIUS) yield* take();
  }
  while (at < window.length) yield* take();
}

/** Returns whether the same face continues from frame `i` to the next. */
function joined(window: readonly TrackedFrame[], i: number): boolean {
  const a = window[i]?.face;
  const b = window[i + 1]?.face;
  if (!a || !b || window[i + 1]?.cut) return false;
  return shift(a, b) < JUMP && growth(a, b) < 0.2;
}

function steady(window: readonly TrackedFrame[], at: number): Face | undefined {
  const face = window[at]?.face;
  if (!face) return undefined;
  // The mean uses as many frames on both sides as show the same face; an uneven mean would lag.
  let reach = 0;
  while (reach < RADIUS && joined(window, at - reach - 1) && joined(window, at + reach)) reach++;
  if (reach === 0) return face;
  const own = face.points;
  const points = own.slice();
  let total = BELL[0] as number;
  const near: (readonly [Float32Array, Float32Array, number])[] = [];
  for (let d = 1; d <= reach; d++) {
    const [before, after] = [window[at - d]?.face, window[at + d]?.face];
    if (!before || !after) break;
    near.push([before.points, after.points, BELL[d] as number]);
    total += 2 * (BELL[d] as number);
  }
  const still = JITTER[0] * face.width;
  const moving = JITTER[1] * face.width;
  for (let i = 0; i < POINTS * 3; i += 3) {
    let [x, y, z] = [0, 0, 0];
    for (const [before, after, share] of near) {
      x += share * ((before[i] as number) + (after[i] as number));
      y += share * ((before[i + 1] as number) + (after[i + 1] as number));
      z += share * ((before[i + 2] as number) + (after[i + 2] as number));
    }
    // Contribution of the other frames to the point's position.
    const rest = total - BELL[0];
    x = (x - rest * (own[i] as number)) / total;
    y = (y - rest * (own[i + 1] as number)) / total;
    z = (z - rest * (own[i + 2] as number)) / total;
    const share = 1 - smoothstep(still, moving, Math.sqrt(x * x + y * y));
    points[i] = (own[i] as number) + share * x;
    points[i + 1] = (own[i + 1] as number) + share * y;
    points[i + 2] = (own[i + 2] as number) + share * z;
  }
  return faceFromPoints(points, face.score);
}
