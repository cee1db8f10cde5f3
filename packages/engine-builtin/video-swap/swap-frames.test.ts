import type { VideoFrame } from '@semblance/media/types';
import { bytesInUse } from '@semblance/testkit/live/memory';
import { type Face, faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { UNKNOWN_GAZE } from '@semblance/vision/gaze';
import { describe, expect, it } from 'vitest';
import { JAW, jawMoves } from '../swap/jaw.ts';
import { ALL_SHOWN, type DecidedBefore } from '../swap/shown-features.ts';
import { opennessOf } from './eyelids.ts';
import type { FaceDrawing } from './face-drawing.ts';
import { SwapFrames } from './swap-frames.ts';
import type { SwapThreads } from './swap-threads.ts';
import { emptyTexture } from './texture-data.ts';
import type { FaceTracker } from './tracker.ts';

const [width, height] = [320, 240];
const COLORS = { range: 'tv', space: 'bt709' } as const;

/** A mesh spread evenly over the middle of a frame. */
const face: Face = faceFromPoints(
  Float32Array.from({ length: POINTS * 3 }, (_, i) => {
    const point = Math.floor(i / 3);
    return i % 3 === 0 ? 100 + (point % 22) * 5 : i % 3 === 1 ? 60 + Math.floor(point / 22) * 5 : 0;
  }),
  1,
);

/** Returns a frame with a face of even brightness, multiplied by `left` on its left side. */
function frameOf(index: number, left: number, tint = 128): VideoFrame {
  const data = new Uint8Array(new SharedArrayBuffer((width * height * 3) / 2)).fill(tint);
  for (let i = 0; i < width * height; i++) data[i] = 120 * (i % width < 150 ? left : 1);
  return { index, ptsUs: index * 40_000, width, height, data };
}

/**
 * Adds frames 20 at a time as Video Swap does. Returns the analysed frames and the textures of each drawing.
 * @param faceIn the face in a frame
 * @param forget whether the textures of drawings are let go, to count those that are left before the end
 */
async function swap(
  frames: readonly VideoFrame[],
  faceIn: (index: number) => Face = () => face,
  { forget = false } = {},
) {
  const analysed: number[] = [];
  const textures: WeakRef<object>[] = [];
  const before: (DecidedBefore | undefined)[] = [];
  const drawn = new Map<Uint8Array, FaceDrawing>();
  const threads: Pick<SwapThreads, 'begin' | 'end' | 'analyse' | 'draw'> = {
    begin: () => 1,
    end: () => undefined,
    analyse: async (_render, { points, before: decided }) => {
      before.push(decided);
      const box = { x: 0, y: 0, width: 16, height: 16 };
      const texture = {
        size: 16,
        box,
        ...emptyTexture(16),
        points,
        shape: ALL_SHOWN,
        taken: ALL_SHOWN,
        bearded: analysed.length === 0,
        gaze: UNKNOWN_GAZE,
        grain: { share: 0, limit: 0 },
        level: analysed.push(analysed.length),
      };
      textures.push(new WeakRef(texture));
      return texture;
    },
    draw: async (_render, { frame, faces }) => {
      if (!forget) drawn.set(frame.data, faces[0] as FaceDrawing);
    },
  };
  const tracker: Pick<FaceTracker, 'facesIn'> = {
    facesIn: (index) => {
      const here = faceIn(index);
      return [{ track: 0, face: here, opacity: 1, openness: opennessOf(here.points) }];
    },
  };
  const written: Uint8Array[] = [];
  const swapFrames = new SwapFrames({
    finder: { coverOf: async () => undefined },
    threads: threads as SwapThreads,
    source: {
      picture: { width: 1, height: 1, channels: 3, data: new Uint8Array(3) },
      points: face.points,
      score: 1,
    },
    colors: COLORS,
    writer: { write: async ({ data }) => void written.push(data) },
    checkpoint: () => undefined,
  });
  for (let at = 0; at < frames.length; at += 20) {
    await swapFrames.add(frames.slice(at, at + 20), tracker as FaceTracker);
  }
  // It collects garbage first.
  if (forget) await bytesInUse();
  const alive = textures.filter((texture) => texture.deref()).length;
  await swapFrames.finish();
  expect(written.length).toBe(frames.length);
  for (const [i, { data }] of frames.entries()) expect(written[i]).toBe(data);
  return {
    analyses: swapFrames.analyses,
    alive,
    before,
    drawings: frames.map(({ data }) => drawn.get(data) as FaceDrawing),
  };
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('SwapFrames', () => {
  it('analyses a face that stays as it is once, and again after five seconds', async () => {
    expect((await swap(range(100).map((i) => frameOf(i, 1)))).analyses).toBe(1);
    expect((await swap(range(140).map((i) => frameOf(i, 1)))).analyses).toBe(2);
  });

  it.each([
    ['shade on one side', (i: number) => frameOf(i, 1 - 0.3 * Math.max(0, (i - 40) / 20))],
    ['colour', (i: number) => frameOf(i, 1, 128 + Math.max(0, (i - 40) / 3))],
  ])('goes over to a changed %s by and by, from the last frame that looked as before', async (_, film) => {
    const { analyses, drawings } = await swap(range(60).map(film));
    expect(analyses).toBe(2);
    for (const { from, to } of drawings.slice(0, 40)) expect(from.luma).toBe(to.luma);
    const shares = drawings.slice(40).map(({ from, to, share }) => {
      return from.level === 1 && to.level === 2 ? share : from.level - 1;
    });
    for (const [i, share] of shares.entries()) expect(share).toBeCloseTo((i + 1) / 20, 6);
  });

  it('analyses at once what comes in front of the face', async () => {
    const { drawings } = await swap(range(20).map((i) => frameOf(i, i < 7 ? 1 : 0.3)));
    expect(drawings[6]?.from.level).toBe(1);
    expect(drawings[7]?.from.level).toBe(2);
    expect(drawings[7]?.share).toBe(0);
  });

  it('tells each analysis what the one before decided', async () => {
    const { before } = await swap(range(20).map((i) => frameOf(i, i < 7 || i > 12 ? 1 : 0.3)));
    expect(before.map((decided) => decided?.bearded)).toEqual([undefined, true, false]);
    expect(before.map((decided) => decided?.taken)).toEqual([undefined, ALL_SHOWN, ALL_SHOWN]);
  });

  it('keeps no texture of an earlier part of the film', async () => {
    const film = range(200).map((i) => frameOf(i, i % 20 < 10 ? 1 : 0.3));
    const { analyses, alive } = await swap(film, undefined, { forget: true });
    expect(analyses).toBeGreaterThan(10);
    expect(alive).toBeLessThan(5);
  });

  it('moves the jaw by the mean of its frames, which neither trembles nor jumps', async () => {
    const CHIN = 152;
    const shorter = (index: number): Face => {
      const points = face.points.slice();
      const by = (index % 2 === 0 ? 0.01 : 0.04) * face.width;
      points[CHIN * 3] = (points[CHIN * 3] as number) + by * Math.sin(face.roll);
      points[CHIN * 3 + 1] = (points[CHIN * 3 + 1] as number) - by * Math.cos(face.roll);
      return faceFromPoints(points, 1);
    };
    const { drawings } = await swap(
      range(60).map((i) => frameOf(i, 1)),
      shorter,
    );
    const down = drawings.map(({ jaw }) => jaw[JAW.indexOf(CHIN) * 2 + 1] as number);
    const single = [0, 1].map(
      (i) => jawMoves(shorter(i), face.points)[JAW.indexOf(CHIN) * 2 + 1] as number,
    ) as [number, number];
    expect(single[1] - single[0]).toBeGreaterThan(0.02);
    for (const move of down) expect(move).toBeCloseTo((single[0] + single[1]) / 2, 3);
    const steps = down.slice(1).map((move, i) => Math.abs(move - (down[i] as number)));
    expect(Math.max(...steps)).toBeLessThan(0.0005);
  });
});
