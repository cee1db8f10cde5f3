/** @module-tag ffmpeg */

import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { mutate, randomFrom, seedFiles, tryFile } from '@semblance/testkit/media/fuzz';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** A few runs per test; `node test/fuzz/media.ts` does any number. */
const RUNS = 10;
let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig({ stallSec: 10, limits: { maxDurationSec: 60, maxFrames: 2_000 } });
});
afterAll(() => rig.close());

describe('damaged files', () => {
  it('are rendered or refused, and leave nothing behind', { timeout: 120_000 }, async () => {
    const seeds = await seedFiles(rig);
    const start = Math.floor(Math.random() * 2 ** 31);
    for (let seed = start; seed < start + RUNS; seed++) {
      const random = randomFrom(seed);
      const file = seeds[seed % seeds.length] as Buffer;
      const other = seeds[Math.floor(random() * seeds.length)] as Buffer;
      const outcome = await tryFile(rig.media, rig.dir, mutate(file, other, random)).catch(
        (error: unknown) => {
          throw new Error(`with seed ${seed} (node test/fuzz/media.ts --seed ${seed} --runs 1)`, {
            cause: error,
          });
        },
      );
      expect(outcome).toMatch(/^(rendered|unsupported_format|input_too_large)$/);
    }
  });
});
