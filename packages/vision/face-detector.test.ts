import { expect, it } from 'vitest';
import { FaceDetector } from './face-detector.ts';
import { openSession } from './models/session.ts';

it('searches no picture that is lower than the smallest face', async () => {
  const detector = new FaceDetector(await openSession('blazeface'));
  const runs = async (width: number, height: number): Promise<number> => {
    let count = 0;
    const picture = { width, height, channels: 3 as const, data: new Uint8Array(width * height * 3) };
    await detector.detect(picture, { minFace: () => 20, checkpoint: () => count++ });
    return count;
  };
  expect(await runs(4000, 3)).toBe(0);
  expect(await runs(200, 100)).toBeGreaterThan(0);
});
