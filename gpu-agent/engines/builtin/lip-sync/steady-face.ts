import { smoothstep } from '../swap/plane.ts';
import { type Face, faceFromPoints, POINTS } from '../vision/face-mesh.ts';
import type { ShownFrame } from './bounce.ts';

/** A frame with its main face; `cut` says that the frame before showed another one, or none. */
export interface FacedFrame extends ShownFrame {
  readonly face: Face | undefined;
  readonly cut: boolean;
}

/** Frames to each side that are averaged. */
export const RADIUS = 2;
const BELL = [0.375, 0.25, 0.0625] as const;
/**
 * A point this far from the mean is jittering; one further off, in widths of the face, is moving. Lips are quick: what is
 * smoothed away of them would be left in the picture as old speech.
 */
const JITTER = [0.003, 0.01] as const;
/** A face that moves further than this in a frame, in widths of it, is another one, or the same after a cut. */
const JUMP = 0.25;

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
  const mean = [0, 0, 0];
  for (let v = 0; v < POINTS; v++) {
    for (let k = 0; k < 3; k++) {
      const i = v * 3 + k;
      let sum = (face.points[i] as number) * BELL[0];
      let weight = BELL[0] as number;
      for (let d = 1; d <= reach; d++) {
        const share = BELL[d] as number;
        sum +=
          share * ((window[at - d]?.face?.points[i] as number) + (window[at + d]?.face?.points[i] as number));
        weight += 2 * share;
      }
      mean[k] = sum / weight;
    }
    const own = [0, 1, 2].map((k) => face.points[v * 3 + k] as number) as [number, number, number];
    const way = Math.hypot((mean[0] as number) - own[0], (mean[1] as number) - own[1]);
    const share = 1 - smoothstep(JITTER[0] * face.width, JITTER[1] * face.width, way);
    for (let k = 0; k < 3; k++) {
      const value = own[k] as number;
      points[v * 3 + k] = value + share * ((mean[k] as number) - value);
    }
  }
  return faceFromPoints(points, face.score);
}
