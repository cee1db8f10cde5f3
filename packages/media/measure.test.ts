/** @module-tag ffmpeg */
import { writeFile } from 'node:fs/promises';
import { beeps, type MediaRig, numberedFrames, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Size of the frames of {@link numberedFrames}. */
const size = { width: 64, height: 48 };

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

const measured = (path: string) => rig.media.measure(path, rig.signal);

describe('the length of a finished video', () => {
  it('counts from the first frame to the end of the last one, and no sound', async () => {
    const file = await rig.make(
      'plain.mp4',
      `${numberedFrames({ frames: 50 })} ${beeps(4)} -c:v libx264 -c:a aac`,
    );
    expect(await measured(file)).toEqual({ frames: 50, durationMs: 2_000, size });
  });

  it.each([
    ['30000/1001', 61, 2_035, 'mp4', 'libx264 -bf 2'],
    ['60', 90, 1_500, 'mp4', 'libx264'],
    ['25', 36, 1_440, 'mkv', 'mpeg4'],
    ['25', 30, 1_200, 'webm', 'libvpx -b:v 1M -auto-alt-ref 0'],
  ])('is exact at %s frames a second (%i frames: %i ms, %s by %s)', async (rate, frames, ms, type, codec) => {
    const file = await rig.make(
      `at-${frames}.${type}`,
      `${numberedFrames({ frames, rate })} -c:v ${codec} -threads 1`,
    );
    expect(await measured(file)).toEqual({ frames, durationMs: ms, size });
  });

  it('tells the size of its frames', async () => {
    const file = await rig.make('tall.mp4', `${numberedFrames({ frames: 5, size: '320x400' })} -c:v libx264`);
    expect((await measured(file)).size).toEqual({ width: 320, height: 400 });
  });

  it('leaves out what comes before the beginning, and what an edit list hides', async () => {
    const source = `${numberedFrames({ frames: 50 })} -c:v libx264 -g 50 -bf 0`;
    const late = await rig.make('late.mp4', `${source} -output_ts_offset 5 -use_editlist 0`);
    expect((await measured(late)).durationMs).toBe(2_000);
    const whole = await rig.make('whole.mp4', source);
    const cut = await rig.make('cut.mp4', `-ss 1 -i ${whole} -c copy`);
    expect((await measured(cut)).durationMs).toBe(1_000);
  });

  it('tells how far it is, in seconds from the first frame on', async () => {
    const source = `${numberedFrames({ frames: 30 })} -c:v libx264`;
    const late = await rig.make('told.mp4', `${source} -output_ts_offset 5 -use_editlist 0`);
    const told: number[] = [];
    await rig.media.measure(late, rig.signal, (seconds) => told.push(seconds));
    expect(told).toHaveLength(30);
    expect(told.map((seconds) => Math.round(seconds * 1e3))).toEqual(
      Array.from({ length: 30 }, (_, i) => i * 40),
    );
  });

  it('is that of frames with varying distances', async () => {
    const file = await rig.make(
      'varying.mp4',
      `${numberedFrames({ frames: 4 })} -vf settb=1/1000,setpts=40*N*N -fps_mode vfr -c:v libx264 -bf 0 -enc_time_base 1:1000`,
    );
    // The frames are at 0, 40, 160 and 360 ms.
    const { frames, durationMs } = await measured(file);
    expect(frames).toBe(4);
    expect(durationMs).toBeGreaterThan(360);
    expect(durationMs).toBeLessThanOrEqual(560);
  });

  it('is not told of what cannot be decoded', async () => {
    await writeFile(rig.path('garbage.mp4'), 'no video at all');
    const sound = await rig.make('sound.mp4', `${beeps(1)} -c:a aac`);
    for (const path of [rig.path('garbage.mp4'), sound]) {
      await expect(measured(path)).rejects.toMatchObject({ code: 'processing_failed' });
    }
  });
});
