/** @module-tag ffmpeg */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { type Subject, subjectOf, writeDriver } from '@semblance/testkit/engine-builtin/motion/drivers';
import { correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { makeClip, readPicture, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';
import { readStill } from './motion-transfer.ts';

let rig: MediaRig;
let engine: Engine;
let finder: FaceFinder;
let directory: string;
let admiral: Picture;
let subject: Subject;
let count = 0;

beforeAll(async () => {
  rig = await openMediaRig();
  directory = await mkdtemp(join(tmpdir(), 'semblance-motion-'));
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  admiral = await readPicture(ADMIRAL);
  subject = await subjectOf(finder, ADMIRAL, 0, 400);
});

afterAll(async () => {
  await engine.close();
  await rig.close();
  await rm(directory, { recursive: true, force: true });
});

async function transfer(
  image: string,
  driver: string,
  signal = new AbortController().signal,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<RenderResult> {
  const outputDir = join(directory, `out-${count++}`);
  await mkdir(outputDir);
  const inputs = { image, motion_video: driver };
  return engine.render({
    capability: 'motion-control',
    inputs,
    parameters: {},
    outputDir,
    signal,
    onProgress,
  });
}

/** The admiral under a camera that rotates and comes nearer. */
function turning(frames: number): Scene {
  return {
    picture: admiral,
    frames,
    view: (i) => ({ x: 262, y: 215, zoom: 1 + 0.06 * Math.sin(i / 9), turn: 0.3 * Math.sin(i / 7) }),
  };
}

/** Her uniform, without a face. */
function uniform(frames: number): Scene {
  return { picture: admiral, frames, view: () => ({ x: 250, y: 480, zoom: 2.2 }) };
}

// Drawing, encoding and checking seconds of video takes long on a busy machine.
describe('Motion Transfer', { timeout: 120_000 }, () => {
  it('follows turns, mouth and eyes of a driver, and keeps its length and sound', async () => {
    const sound = await rig.make('tone.wav', '-f lavfi -i sine=300:d=3');
    const driver = rig.path('talk.mp4');
    const seconds = 3;
    // The part of the driver's motion with roll and yaw, then speech.
    await writeDriver(rig.media, subject, 'animator', {
      path: driver,
      frameRate: 20,
      seconds,
      audio: sound,
      at: (t) => (t < 1.8 ? 0.6 + 1.6 * t : 5.6 + (t - 1.8)),
    });
    const fractions: number[] = [];
    const result = await transfer(ASTRONAUT, driver, undefined, (fraction) => fractions.push(fraction));
    expect(result).toMatchObject({
      contentType: 'video/mp4',
      units: { unit: 'second' },
      details: { frames: 60, width: 512, height: 512, frames_without_face: 0 },
      findings: { faces: { found: 1, changed: 1, left: [] }, hints: [] },
    });
    expect(result.units.quantity).toBeCloseTo(seconds, 1);
    const probed = await rig.ffprobe(result.outputPath, '-show_streams');
    expect(probed.streams.map(({ codec_type }) => codec_type)).toEqual(['video', 'audio']);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions.at(-1)).toBe(1);
    const [a, b] = [
      await measureVideo(rig.media, finder, driver),
      await measureVideo(rig.media, finder, result.outputPath),
    ];
    expect(b.missing).toBe(0);
    expect(correlation(a.roll, b.roll)).toBeGreaterThan(0.95);
    expect(correlation(a.yaw, b.yaw)).toBeGreaterThan(0.95);
    expect(correlation(a.aperture, b.aperture)).toBeGreaterThan(0.9);
  });

  it('takes a filmed photograph for a driver, with uneven times, a still of odd size and a loss in between', async () => {
    const timeUs = (i: number) => i * 40_000 + (i % 3) * 7_000;
    const driver = rig.path('camera.mp4');
    const size = { width: 360, height: 360 };
    await makeClip(rig.media, {
      path: driver,
      ...size,
      timeUs,
      scenes: [turning(24), uniform(8), turning(12)],
    });
    const still = join(directory, 'odd.png');
    await sharp(ASTRONAUT).resize(401, 333).png().toFile(still);
    const result = await transfer(still, driver);
    expect(result.details).toMatchObject({ frames: 44, width: 400, height: 332 });
    expect(result.details.frames_without_face).toBeGreaterThanOrEqual(8);
    expect(result.details.frames_without_face).toBeLessThan(18);
    expect(result.findings?.hints).toMatchObject([
      { code: 'face_small', input: 'image' },
      { code: 'frames_unchanged', input: 'motion_video' },
    ]);
    const [before, after] = [await rig.frames(driver), await rig.frames(result.outputPath)];
    expect(after.map(({ ptsUs }) => ptsUs)).toEqual(before.map(({ ptsUs }) => ptsUs));
    const [a, b] = [
      await measureVideo(rig.media, finder, driver),
      await measureVideo(rig.media, finder, result.outputPath),
    ];
    expect(b.missing).toBe(0);
    expect(correlation(a.roll.slice(0, 24), b.roll.slice(0, 24))).toBeGreaterThan(0.95);
    // While the driver is away the head holds still: no frame jumps.
    for (let i = 24; i < 44; i++)
      expect(Math.abs((b.roll[i] as number) - (b.roll[i - 1] as number))).toBeLessThan(0.12);
  });

  it('shows white where the still is transparent', async () => {
    const still = join(directory, 'erased.png');
    const background = { r: 200, g: 30, b: 30, alpha: 0 };
    await sharp({ create: { width: 64, height: 64, channels: 4, background } })
      .png()
      .toFile(still);
    const { data } = await readStill(still);
    expect(data.every((value) => value === 255)).toBe(true);
  });

  it('says which input has no face, and leaves nothing behind', async () => {
    const driver = rig.path('uniform.mp4');
    await makeClip(rig.media, { path: driver, width: 320, height: 240, scenes: [uniform(12)] });
    await expect(transfer(ASTRONAUT, driver)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('motion_video_key'),
      findings: { hints: [] },
    });
    expect(await readdir(join(directory, `out-${count - 1}`))).toEqual([]);
    const grey = join(directory, 'grey.png');
    await sharp({ create: { width: 320, height: 320, channels: 3, background: '#777' } })
      .png()
      .toFile(grey);
    const good = rig.path('short.mp4');
    await makeClip(rig.media, { path: good, width: 320, height: 320, scenes: [turning(4)] });
    await expect(transfer(grey, good)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('image_key'),
    });
  });

  it('animates by a driver of a single frame', async () => {
    const driver = rig.path('one.mp4');
    await makeClip(rig.media, { path: driver, width: 320, height: 320, scenes: [turning(1)] });
    expect((await transfer(ASTRONAUT, driver)).details).toMatchObject({ frames: 1 });
  });

  it('ends within a second of a cancellation, and leaves nothing behind', async () => {
    const driver = rig.path('long.mp4');
    await makeClip(rig.media, { path: driver, width: 320, height: 320, scenes: [turning(150)] });
    const took = await fairly(async (now) => {
      const abort = new AbortController();
      let cancelledAt = 0;
      const running = transfer(ASTRONAUT, driver, abort.signal, (fraction) => {
        if (fraction < 0.2 || cancelledAt) return;
        cancelledAt = now();
        abort.abort(new Error('not any more'));
      });
      await expect(running).rejects.toThrow('not any more');
      return now() - cancelledAt;
    });
    expect(took).toBeLessThan(1000);
    await expect.poll(() => readdir(join(directory, `out-${count - 1}`))).toEqual([]);
  });
});
