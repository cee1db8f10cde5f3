import { faceFromPoints, POINTS } from '@semblance/vision/face-mesh';
import { UNKNOWN_GAZE } from '@semblance/vision/gaze';
import { expect, it } from 'vitest';
import { ALL_SHOWN } from '../swap/shown-features.ts';
import type { SwapThreads } from './swap-threads.ts';
import { emptyTexture } from './texture-data.ts';
import { warmUpSwaps } from './warm-up.ts';

const picture = { width: 64, height: 64, channels: 3 as const, data: new Uint8Array(64 * 64 * 3).fill(150) };
const face = faceFromPoints(
  Float32Array.from({ length: POINTS * 3 }, (_, i) => 16 + (i % 32)),
  1,
);

function threads(draw: SwapThreads['draw']) {
  const asked: string[] = [];
  const fake: Pick<SwapThreads, 'count' | 'begin' | 'end' | 'analyse' | 'draw'> = {
    count: 2,
    begin: () => 7,
    end: (render) => void asked.push(`end ${render}`),
    analyse: async (_render, { points }) => {
      asked.push('analyse');
      const box = { x: 0, y: 0, width: 16, height: 16 };
      return {
        size: 16,
        box,
        ...emptyTexture(16),
        points,
        shape: ALL_SHOWN,
        taken: ALL_SHOWN,
        bearded: false,
        gaze: UNKNOWN_GAZE,
        grain: { share: 0, limit: 0 },
        level: 100,
      };
    },
    draw: async (...drawing) => {
      asked.push('draw');
      await draw(...drawing);
    },
  };
  return { asked, threads: fake as SwapThreads };
}

it('has each thread analyse a few faces and draw dozens, into memory that it can see, and ends that render', async () => {
  const { asked, threads: two } = threads(async (_render, { frame }) => {
    expect(frame.data.buffer instanceof SharedArrayBuffer).toBe(true);
  });
  await warmUpSwaps(two, picture, face);
  const count = (what: string) => asked.filter((one) => one === what).length;
  expect([count('analyse'), count('draw')]).toEqual([6, 120]);
  expect(asked.at(-1)).toBe('end 7');
});

it('ends the render of a warm-up that fails', async () => {
  const { asked, threads: two } = threads(async () => {
    throw new Error('broken on purpose');
  });
  const message = await warmUpSwaps(two, picture, face).catch((error: Error) => error.message);
  expect(message).toBe('broken on purpose');
  expect(asked.at(-1)).toBe('end 7');
});
