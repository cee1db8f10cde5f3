/** @module-tag ffmpeg */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import {
  type Clip,
  clipFrame,
  room,
  walker,
  writeClip,
} from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  drawFigure,
  figurePoints,
  type Head,
  loadHead,
  RED_SHIRT,
  STANDING,
  type Stance,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import {
  meanColour,
  overlap,
  psnrOutside,
  rgbOf,
  silhouette,
} from '@semblance/testkit/engine-builtin/identity-swap/measure';
import { subjectOf, writeDriver } from '@semblance/testkit/engine-builtin/motion/drivers';
import { correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { BODY, type PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';
import { identitySwap, sizeFor } from './identity-swap.ts';

const [W, H] = [640, 360];
/** Interval between the frames that are checked. */
const EVERY = 6;

let rig: MediaRig;
let engine: Engine;
let finder: PersonFinder;
let directory: string;
let astronaut: Head;
let admiral: Head;
let count = 0;

beforeAll(async () => {
  rig = await openMediaRig();
  directory = await mkdtemp(join(tmpdir(), 'semblance-identity-'));
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  finder = await openPersonFinder();
  [astronaut, admiral] = await Promise.all([loadHead('astronaut'), loadHead('hopper')]);
}, 120_000);

afterAll(async () => {
  await engine.close();
  await finder.close();
  await rig.close();
  await rm(directory, { recursive: true, force: true });
});

async function swap(
  video: string,
  character: string,
  options: {
    parameters?: Record<string, string>;
    signal?: AbortSignal;
    onProgress?: (fraction: number) => void;
  } = {},
): Promise<RenderResult> {
  const outputDir = join(directory, `out-${count++}`);
  await mkdir(outputDir);
  return engine.render({
    capability: 'character-swap',
    inputs: { video, character },
    parameters: options.parameters ?? {},
    outputDir,
    signal: options.signal ?? new AbortController().signal,
    onProgress: options.onProgress ?? (() => undefined),
  });
}

/** Makes a picture of the figure in red, in front of the same room. */
async function redCharacter(head = admiral): Promise<string> {
  const [width, height] = [400, 600];
  const { rgb } = drawFigure(
    width,
    height,
    { ...STANDING, x: width / 2, y: 0.965 * height, height: 0.9 * height },
    { dress: RED_SHIRT, head },
    room(width, height),
  );
  const path = join(directory, `red-${count++}.png`);
  await sharp(rgb, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(path);
  return path;
}

const walking = (frames: number): Clip => ({
  width: W,
  height: H,
  frames,
  rate: 20,
  dress: BLUE_SHIRT,
  head: astronaut,
  stance: walker(W, H),
});

// Drawing, encoding and checking seconds of video takes long on a busy machine.
describe('Identity Swap', { timeout: 120_000 }, () => {
  it('replaces the whole appearance with the character, keeping motion, background, length and sound', async () => {
    const clip = walking(48);
    const sound = await rig.make('tone.wav', '-f lavfi -i sine=300:d=2.4');
    const video = rig.path('walk.mp4');
    await writeClip(rig.media, clip, video, sound);
    const fractions: number[] = [];
    const result = await swap(video, await redCharacter(), { onProgress: (f) => fractions.push(f) });
    expect(result).toMatchObject({
      contentType: 'video/mp4',
      units: { unit: 'second' },
      details: { frames: 48, frames_with_swap: 48, width: W, height: H },
    });
    expect(result.units.quantity).toBeCloseTo(2.4, 1);
    const { streams } = await rig.ffprobe(result.outputPath, '-show_streams');
    expect(streams.map(({ codec_type }) => codec_type)).toEqual(['video', 'audio']);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions.at(-1)).toBe(1);
    const frames = await rig.frames(result.outputPath);
    const misses: number[] = [];
    for (const frame of frames.filter(({ index }) => index % EVERY === 0)) {
      const truth = clipFrame(clip, frame.index);
      const rgb = rgbOf(frame);
      // The character has the height and width of the person, and stands in its place and pose.
      expect(overlap(silhouette(rgb, truth.empty), truth.mask), `frame ${frame.index}`).toBeGreaterThan(0.8);
      const size = { width: W, height: H, away: 0.03 * H };
      expect(psnrOutside(rgb, truth.empty, truth.mask, size), `frame ${frame.index}`).toBeGreaterThan(30);
      const [red, , blue] = meanColour(rgb, truth.mask);
      expect(red, `frame ${frame.index}`).toBeGreaterThan(1.5 * blue);
      const seen = await finder.find({ width: W, height: H, channels: 3, data: rgb });
      const points = figurePoints(truth.stance as Stance);
      for (const joint of [BODY.rightWrist, BODY.leftWrist, BODY.rightAnkle, BODY.leftAnkle, BODY.nose]) {
        const [p, q] = [points[joint], seen?.points[joint]];
        misses.push(p && q ? Math.hypot(p.x - q.x, p.y - q.y) / H : 1);
      }
    }
    // In shares of its height, as a second detection on the output finds hands, feet and head.
    misses.sort((a, b) => a - b);
    expect(misses[misses.length >> 1]).toBeLessThan(0.03);
    expect(misses[Math.floor(0.9 * misses.length)]).toBeLessThan(0.08);
  });

  it('turns the head as the reference does, and opens its mouth with it', async () => {
    const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
    const faces = new FaceFinder({ blazeface, facemesh });
    const video = rig.path('talk.mp4');
    const subject = await subjectOf(faces, ASTRONAUT, 0, 400);
    // The part of the driver's motion with rotations, then speech.
    await writeDriver(rig.media, subject, 'animator', {
      path: video,
      frameRate: 15,
      seconds: 2.8,
      at: (t) => (t < 1.4 ? 1.2 + 1.6 * t : 5.6 + (t - 1.4)),
    });
    const { details, outputPath } = await swap(video, ADMIRAL);
    expect(details).toMatchObject({ frames: 42, frames_with_swap: 42, frames_with_face: 42 });
    const [a, b] = [
      await measureVideo(rig.media, faces, video),
      await measureVideo(rig.media, faces, outputPath),
    ];
    expect(b.missing).toBe(0);
    expect(correlation(a.yaw, b.yaw)).toBeGreaterThan(0.9);
    expect(correlation(a.aperture, b.aperture)).toBeGreaterThan(0.8);
  });

  it('ends when it is cancelled, at its beginning and while it draws, and leaves nothing behind', async () => {
    const video = rig.path('long.mp4');
    await writeClip(rig.media, walking(24), video);
    const character = await redCharacter();
    for (const from of [0, 0.3]) {
      const abort = new AbortController();
      const onProgress = (fraction: number): void => {
        if (fraction >= from) abort.abort(new Error('not any more'));
      };
      await expect(swap(video, character, { signal: abort.signal, onProgress })).rejects.toThrow(
        'not any more',
      );
      await expect.poll(() => readdir(join(directory, `out-${count - 1}`))).toEqual([]);
    }
  });

  it('puts the head of a character whose picture ends above the hips on the person, and keeps all else', async () => {
    const clip = walking(16);
    const video = rig.path('half.mp4');
    await writeClip(rig.media, clip, video);
    const result = await swap(video, ADMIRAL);
    const [frame] = (await rig.frames(result.outputPath)).slice(12);
    if (!frame) throw new Error('no frame');
    const truth = clipFrame(clip, 12);
    const points = figurePoints(truth.stance as Stance);
    const rgb = rgbOf(frame);
    const differs = (point: number, up: number, radius: number): number => {
      const { x, y } = points[point] as { x: number; y: number };
      let [sum, count] = [0, 0];
      for (let dy = -radius; dy <= radius; dy++) {
        for (let dx = -radius; dx <= radius; dx++) {
          const i = ((Math.round(y - up * H) + dy) * W + Math.round(x) + dx) * 3;
          for (const c of [0, 1, 2]) sum += Math.abs((rgb[i + c] as number) - (truth.rgb[i + c] as number));
          count += 3;
        }
      }
      return sum / count;
    };
    for (const joint of [BODY.leftKnee, BODY.rightKnee, BODY.rightWrist])
      expect(differs(joint, 0, 1)).toBeLessThan(20);
    // Her uniform is nearly black, the shirt blue.
    expect(differs(BODY.nose, -0.16, 3)).toBeLessThan(15);
    // Her cap is dark where the astronaut's hair is fair.
    expect(differs(BODY.nose, 0.04, 3)).toBeGreaterThan(25);
  });

  it('keeps long hair and says so where the picture of the character shows a head only', async () => {
    const stance = (t: number): Stance => ({
      ...STANDING,
      x: W * (0.45 + 0.1 * t),
      y: 2.5 * H,
      height: 2.4 * H,
      longer: 0.03,
    });
    const dress = { ...BLUE_SHIRT, longHair: [92, 58, 34] as const };
    const clip: Clip = { ...walking(16), dress, stance };
    const video = rig.path('long-hair.mp4');
    await writeClip(rig.media, clip, video);
    const result = await swap(video, ADMIRAL);
    expect(result.findings?.hints.map(({ code }) => code)).toContain('hair_kept');
    expect(result.details).toMatchObject({ frames: 16, frames_with_swap: 16, frames_with_face: 16 });
    const [before, after] = [await rig.frames(video), await rig.frames(result.outputPath)].map(
      (frames) => frames[8] && rgbOf(frames[8]),
    );
    if (!before || !after) throw new Error('no frame');
    const points = figurePoints(clip.stance(8 / clip.rate) as Stance);
    const differs = ({ x, y }: { x: number; y: number }): number => {
      const i = (Math.round(y) * W + Math.round(x)) * 3;
      return Math.max(
        ...[0, 1, 2].map((c) => Math.abs((before[i + c] as number) - (after[i + c] as number))),
      );
    };
    const [left, nose] = [points[BODY.leftShoulder], points[BODY.nose]] as { x: number; y: number }[];
    if (!left || !nose) throw new Error('no points');
    expect(differs({ x: (nose.x + left.x) / 2, y: (nose.y + left.y) / 2 })).toBeLessThan(12);
    const around = [-6, -3, 0, 3, 6].map((dx) => differs({ x: nose.x + dx, y: nose.y + 14 }));
    expect(Math.max(...around)).toBeGreaterThan(20);
  });

  it('bridges a short loss of the person and passes a longer absence as it is', async () => {
    const walk = walker(W, H);
    const gone = (i: number): boolean => (i >= 10 && i < 14) || i >= 24;
    const clip: Clip = { ...walking(48), stance: (t) => (gone(Math.round(t * 20)) ? undefined : walk(t)) };
    const video = rig.path('loss.mp4');
    await writeClip(rig.media, clip, video);
    const { details, findings, outputPath } = await swap(video, await redCharacter());
    expect(findings?.hints).toContainEqual({
      code: 'frames_unchanged',
      message: expect.stringContaining('of 48 frames of the video show no person'),
      input: 'video',
    });
    expect(details.frames).toBe(48);
    expect(details.frames_with_swap).toBeGreaterThanOrEqual(24);
    expect(details.frames_with_swap).toBeLessThan(32);
    const frames = await rig.frames(outputPath);
    const seen = (i: number): number => {
      const { empty } = clipFrame(clip, i);
      return (
        silhouette(rgbOf(frames[i] as (typeof frames)[number]), empty).filter((v) => v > 0).length / (W * H)
      );
    };
    expect(seen(12)).toBeGreaterThan(0.05);
    expect(seen(44)).toBeLessThan(0.002);
  });

  it('makes frames of at most 1024 or 2048 pixels on the longer side, and enlarges none', () => {
    expect(sizeFor({ width: 1920, height: 1080 }, '1k')).toEqual({ width: 1024, height: 576 });
    expect(sizeFor({ width: 1920, height: 1080 }, '2k')).toEqual({ width: 1920, height: 1080 });
    expect(sizeFor({ width: 2160, height: 3840 }, '2k')).toEqual({ width: 1152, height: 2048 });
    expect(sizeFor({ width: 640, height: 360 }, '1k')).toEqual({ width: 640, height: 360 });
  });

  it('says in which of its inputs nobody is to be seen', async () => {
    const video = rig.path('nobody.mp4');
    await writeClip(rig.media, { ...walking(12), stance: () => undefined }, video);
    const empty = join(directory, 'room.png');
    await sharp(room(400, 300), { raw: { width: 400, height: 300, channels: 3 } })
      .png()
      .toFile(empty);
    const none = { code: 'face_not_detected' };
    await expect(swap(video, await redCharacter())).rejects.toMatchObject({
      ...none,
      message: expect.stringContaining('video_key'),
    });
    const walk = rig.path('refusal.mp4');
    await writeClip(rig.media, walking(12), walk);
    await expect(swap(walk, empty)).rejects.toMatchObject({
      ...none,
      message: expect.stringContaining('character_key'),
    });
    expect(await readdir(join(directory, `out-${count - 1}`))).toEqual([]);
  });

  it('refuses an animal in which a body was found, before anything is written', async () => {
    const video = rig.path('animal.mp4');
    await writeClip(rig.media, { ...walking(12), height: 2 * H, stance: walker(W, 2 * H) }, video);
    const faces = { findUpright: async () => [], look: async () => ({ faces: [], left: [] }) };
    /** A finder whose bodies stay in a character picture and move in a video, as those of animals do. */
    const people: PersonFinder = {
      find: (picture, before) => finder.find(picture, before),
      unrest: async (picture) => (picture.width === W ? 0.1 : 0),
      close: async () => undefined,
    };
    const outputDir = join(directory, `out-${count++}`);
    await mkdir(outputDir);
    const job = { video, character: await redCharacter(), resolution: '1k', outputDir } as const;
    const swapped = identitySwap(job, rig.media, {
      people,
      finder: faces as unknown as FaceFinder,
      checkpoint: () => undefined,
      signal: new AbortController().signal,
      onProgress: () => undefined,
    });
    await expect(swapped).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/video_key.* is no person/),
    });
    expect(await readdir(outputDir)).toEqual([]);
  });

  it('refuses a head that would be a blur, before it draws', async () => {
    const video = await rig.make(
      'close.mp4',
      `-loop 1 -i ${ASTRONAUT} -vf crop=256:256:96:0,scale=960:960,fps=15 -t 0.4`,
    );
    const small = join(directory, 'small.png');
    await sharp(ADMIRAL).resize({ height: 150 }).toFile(small);
    const done: number[] = [];
    await expect(
      swap(video, small, { onProgress: (fraction) => void done.push(fraction) }),
    ).rejects.toMatchObject({
      code: 'processing_failed',
      message: expect.stringMatching(/character_key.*too small for this video/),
    });
    expect(Math.max(...done)).toBeLessThan(0.1);
    expect(await readdir(join(directory, `out-${count - 1}`))).toEqual([]);
  });

  it('refuses a head for a person who shows no face', async () => {
    const video = rig.path('faceless.mp4');
    const skin = [196, 150, 128];
    const blank = { ...astronaut, data: astronaut.data.map((value, i) => skin[i % 4] ?? value) };
    await writeClip(rig.media, { ...walking(12), head: blank }, video);
    await expect(swap(video, ADMIRAL)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('video_key'),
      findings: { hints: [] },
    });
    expect(await readdir(join(directory, `out-${count - 1}`))).toEqual([]);
  });
});
