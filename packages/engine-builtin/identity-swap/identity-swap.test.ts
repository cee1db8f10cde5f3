/** @module-tag ffmpeg */
import { readdir } from 'node:fs/promises';
import {
  type Clip,
  clipFrame,
  walker,
  writeClip,
} from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  figurePoints,
  STANDING,
  type Stance,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import {
  CLIP_HEIGHT,
  CLIP_WIDTH,
  type IdentityRig,
  openIdentityRig,
} from '@semblance/testkit/engine-builtin/identity-swap/identity-rig';
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
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { BODY } from '@semblance/vision/person';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sizeFor } from './identity-swap.ts';

const [W, H] = [CLIP_WIDTH, CLIP_HEIGHT];
/** Interval between the frames that are checked. */
const EVERY = 6;

let rig: IdentityRig;
beforeAll(async () => {
  rig = await openIdentityRig();
}, 120_000);
afterAll(() => rig.close());

// Drawing, encoding and checking seconds of video takes long on a busy machine.
describe('Identity Swap', { timeout: 120_000 }, () => {
  it('replaces the whole appearance with the character, keeping motion, background, length and sound', async () => {
    const clip = rig.walking(48);
    const sound = await rig.media.make('tone.wav', '-f lavfi -i sine=300:d=2.4');
    const video = rig.media.path('walk.mp4');
    await writeClip(rig.media.media, clip, video, sound);
    const fractions: number[] = [];
    const result = await rig.swap(video, await rig.redCharacter(), { onProgress: (f) => fractions.push(f) });
    expect(result).toMatchObject({
      contentType: 'video/mp4',
      units: { unit: 'second' },
      details: { frames: 48, frames_with_swap: 48, width: W, height: H },
    });
    expect(result.units.quantity).toBeCloseTo(2.4, 1);
    const { streams } = await rig.media.ffprobe(result.outputPath, '-show_streams');
    expect(streams.map(({ codec_type }) => codec_type)).toEqual(['video', 'audio']);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions.at(-1)).toBe(1);
    const frames = await rig.media.frames(result.outputPath);
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
      const seen = await rig.finder.find({ width: W, height: H, channels: 3, data: rgb });
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
    const video = rig.media.path('talk.mp4');
    const subject = await subjectOf(faces, ASTRONAUT, 0, 400);
    // The part of the driver's motion with rotations, then speech.
    await writeDriver(rig.media.media, subject, 'animator', {
      path: video,
      frameRate: 15,
      seconds: 2.8,
      at: (t) => (t < 1.4 ? 1.2 + 1.6 * t : 5.6 + (t - 1.4)),
    });
    const { details, outputPath } = await rig.swap(video, ADMIRAL);
    expect(details).toMatchObject({ frames: 42, frames_with_swap: 42, frames_with_face: 42 });
    const [a, b] = [
      await measureVideo(rig.media.media, faces, video),
      await measureVideo(rig.media.media, faces, outputPath),
    ];
    expect(b.missing).toBe(0);
    expect(correlation(a.yaw, b.yaw)).toBeGreaterThan(0.9);
    expect(correlation(a.aperture, b.aperture)).toBeGreaterThan(0.8);
  });

  it('ends when it is cancelled, at its beginning and while it draws, and leaves nothing behind', async () => {
    const video = rig.media.path('long.mp4');
    await writeClip(rig.media.media, rig.walking(24), video);
    const character = await rig.redCharacter();
    for (const from of [0, 0.3]) {
      const abort = new AbortController();
      const onProgress = (fraction: number): void => {
        if (fraction >= from) abort.abort(new Error('not any more'));
      };
      await expect(rig.swap(video, character, { signal: abort.signal, onProgress })).rejects.toThrow(
        'not any more',
      );
      await expect.poll(() => readdir(rig.lastOutput)).toEqual([]);
    }
  });

  it('puts the head of a character whose picture ends above the hips on the person, and keeps all else', async () => {
    const clip = rig.walking(16);
    const video = rig.media.path('half.mp4');
    await writeClip(rig.media.media, clip, video);
    const result = await rig.swap(video, ADMIRAL);
    const [frame] = (await rig.media.frames(result.outputPath)).slice(12);
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
    // Her cap is dark where the rig.astronaut's hair is fair.
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
    const clip: Clip = { ...rig.walking(16), dress, stance };
    const video = rig.media.path('long-hair.mp4');
    await writeClip(rig.media.media, clip, video);
    const result = await rig.swap(video, ADMIRAL);
    expect(result.findings?.hints.map(({ code }) => code)).toContain('hair_kept');
    expect(result.details).toMatchObject({ frames: 16, frames_with_swap: 16, frames_with_face: 16 });
    const [before, after] = [await rig.media.frames(video), await rig.media.frames(result.outputPath)].map(
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
    const clip: Clip = {
      ...rig.walking(48),
      stance: (t) => (gone(Math.round(t * 20)) ? undefined : walk(t)),
    };
    const video = rig.media.path('loss.mp4');
    await writeClip(rig.media.media, clip, video);
    const { details, findings, outputPath } = await rig.swap(video, await rig.redCharacter());
    expect(findings?.hints).toContainEqual({
      code: 'frames_unchanged',
      message: expect.stringContaining('of 48 frames of the video show no person'),
      input: 'video',
    });
    expect(details.frames).toBe(48);
    expect(details.frames_with_swap).toBeGreaterThanOrEqual(24);
    expect(details.frames_with_swap).toBeLessThan(32);
    const frames = await rig.media.frames(outputPath);
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
});
