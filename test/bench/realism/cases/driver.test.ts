import { join } from 'node:path';
import { apertures } from '@semblance/testkit/quality/measures';
import { describe, expect, it } from 'vitest';
import { openJudges } from '../judged-case.ts';
import { framesOf, meshes } from '../judged-clip.ts';
import { withMedia } from '../with-media.ts';
import { actAt, CUT, DRIVER_FRAMES, DRIVER_RATE, driverClip } from './driver.ts';

describe('a driver', () => {
  it('begins at rest, and where it is cut in a smile with an open mouth and its head at rest', () => {
    const still = { yaw: 0, roll: 0, pitch: 0, dx: 0, dy: 0, scale: 1 };
    expect(actAt(0)).toMatchObject({ head: still, open: 0, smile: 0 });
    const cut = actAt(CUT / DRIVER_RATE);
    expect(cut.head).toEqual(still);
    expect(cut.open).toBeGreaterThan(0.15);
    expect(cut.smile).toBeGreaterThan(0.9);
    const later = Array.from({ length: DRIVER_FRAMES - CUT }, (_, n) => actAt((n + CUT) / DRIVER_RATE));
    expect(later.some(({ open, smile }) => open + smile === 0)).toBe(true);
    expect(Math.min(...later.map(({ eyes }) => eyes))).toBeLessThan(0.1);
  });

  it('is filmed from where it is cut', async () => {
    const judges = await openJudges();
    const made = withMedia(
      (line) => {
        throw new Error(line);
      },
      async function* (media, folder) {
        const path = join(folder, 'driver.mp4');
        // The other driver's tongue is drawn as light as a lip, for which the mesh takes a part of it.
        await driverClip(media, judges.finder, { name: 'astronaut', from: CUT, path });
        const frames = await framesOf(media, path);
        yield { frames, faces: await meshes(frames, [], judges) };
      },
    );
    for await (const { frames, faces } of made) {
      expect(faces).toHaveLength(DRIVER_FRAMES - CUT);
      expect(frames).toHaveLength(DRIVER_FRAMES - CUT);
      const open = faces.map((face) => apertures(face).mouth);
      expect(open[0]).toBeGreaterThan((open[11] as number) + 0.1);
    }
  }, 120_000);
});
