import { RING_POINTS } from '../mouth/lip-rings.ts';
import { type Face, faceFromPoints, POINTS } from '../vision/face-mesh.ts';
import type { ShownFrame } from './bounce.ts';

/** A frame with its main face; `cut` says that the frame before showed another one, or none. */
export interface FacedFrame extends ShownFrame {
  readonly face: Face | undefined;
  readonly cut: boolean;
}

/** Frames to each side that are averaged. */
export const RADIUS = 2;
const HEAD_BELL = [0.375, 0.25, 0.0625] as const;
/** Lips are quick: what is smoothed away of them would be left in the picture as old speech. */
const LIP_BELL = [0.5, 0.25, 0] as const;
/** A face that moves further than this in a frame, in widths of it, is another one, or the same after a cut. */
const JUMP = 0.25;

const IS_LIP = new Uint8Array(POINTS);
for (const point of RING_POINTS) IS_LIP[point] = 1;

interface Tracked extends ShownFrame {
  readonly face: Face | undefined;
}

/** Takes the jitter out of faces by a mean over the frames around each, which has no lag. */
export async function* steadyFaces(frames: AsyncIterable<Tracked>): AsyncGenerator<FacedFrame> {
  const window: Tracked[] = [];
  let at = 0;
  const take = function* (): Generator<FacedFrame> {
    const { frame, startUs } = window[at] as Tracked;
    yield { frame, startUs, face: steady(window, at), cut: !joined(window, at - 1) };
    if (at < RADIUS) at++;
    else window.shift();
  };
  for await (const frame of frames) {
    window.push(frame);
    if (window.length - at > RADIUS) yield* take();
  }
  while (at < window.length) yield* take();
}

/** Whether one face goes on from the frame at `i` to the next. */
function joined(window: readonly Tracked[], i: number): boolean {
  const a = window[i]?.face;
  const b = window[i + 1]?.face;
  if (!a || !b) return false;
  const nose = 4 * 3;
  const way = Math.hypot(
    (a.points[nose] as number) - (b.points[nose] as number),
    (a.points[nose + 1] as number) - (b.points[nose + 1] as number),
  );
  return way < JUMP * Math.min(a.width, b.width) && Math.abs(Math.log(a.width / b.width)) < 0.2;
}

function steady(window: readonly Tracked[], at: number): Face | undefined {
  const face = window[at]?.face;
  if (!face) return undefined;
  // As far to both sides as the same face is seen: an uneven mean would lag.
  let reach = 0;
  while (reach < RADIUS && joined(window, at - reach - 1) && joined(window, at + reach)) reach++;
  if (reach === 0) return face;
  const points = new Float32Array(POINTS * 3);
  for (let v = 0; v < POINTS; v++) {
    const bell = IS_LIP[v] ? LIP_BELL : HEAD_BELL;
    for (let k = v * 3; k < v * 3 + 3; k++) {
      let sum = (face.points[k] as number) * bell[0];
      let weight = bell[0] as number;
      for (let d = 1; d <= reach; d++) {
        const share = bell[d] as number;
        const before = window[at - d]?.face?.points[k] as number;
        const after = window[at + d]?.face?.points[k] as number;
        sum += share * (before + after);
        weight += 2 * share;
      }
      points[k] = sum / weight;
    }
  }
  return faceFromPoints(points, face.score);
}
