/** @module-tag ffmpeg */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import type { Media } from '@semblance/media/types';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { makeClip, readPicture, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';
import { videoSwap } from './video-swap.ts';

const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
const GROUP = join(DEMO, 'sample5.jpg');
const FOUR = join(DEMO, 'sample6.jpg');
const SIZE = { width: 480, height: 360 };

let rig: MediaRig;
let engine: Engine;
let directory: string;
let admiral: Picture;
let count = 0;

beforeAll(async () => {
  rig = await openMediaRig();
  directory = await mkdtemp(join(tmpdir(), 'semblance-video-swap-'));
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  admiral = await readPicture(ADMIRAL);
});

afterAll(async () => {
  await engine.close();
  await rig.close();
  await rm(directory, { recursive: true, force: true });
});

/** The admiral's head and shoulders with a swaying camera. */
function portrait(frames: number): Scene {
  return {
    picture: admiral,
    frames,
    view: (i) => ({ x: 255 + 3 * Math.sin(i / 4), y: 190, zoom: 1, turn: 0.05 * Math.sin(i / 6) }),
  };
}

/** Her uniform, without a face. */
function uniform(frames: number): Scene {
  return { picture: admiral, frames, view: () => ({ x: 250, y: 480, zoom: 2.2 }) };
}

async function clip(name: string, scenes: readonly Scene[], more = {}): Promise<string> {
  const path = rig.path(name);
  await makeClip(rig.media, { path, ...SIZE, scenes, ...more });
  return path;
}

async function swap(
  video: string,
  face: string,
  parameters: Record<string, string> = {},
  signal = new AbortController().signal,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<RenderResult> {
  const outputDir = join(directory, `out-${count++}`);
  await mkdir(outputDir);
  const inputs = { video, face };
  return engine.render({ capability: 'face-swap', inputs, parameters, outputDir, signal, onProgress });
}

describe('Video Swap', () => {
  it('swaps every frame with a face, on both sides of a cut, and keeps sound and uneven times', async () => {
    const sound = await rig.make('sine.wav', '-f lavfi -i sine=440:d=2');
    const timeUs = (i: number) => i * 40_000 + (i % 3) * 7_000;
    const video = await clip('cut.mp4', [portrait(13), uniform(5), portrait(9)], { audio: sound, timeUs });
    const fractions: number[] = [];
    const result = await swap(video, ASTRONAUT, {}, undefined, (fraction) => fractions.push(fraction));
    expect(result).toMatchObject({
      contentType: 'video/mp4',
      units: { unit: 'second' },
      details: { faces: 1, frames: 27, frames_with_swap: 22, shots: 3 },
      findings: {
        faces: { found: 1, changed: 1, left: [] },
        hints: [
          { code: 'frames_unchanged', message: expect.stringMatching(/^5 of 27 frames/), input: 'video' },
        ],
      },
    });
    const [before, after] = [await rig.frames(video), await rig.frames(result.outputPath)];
    expect(after.map(({ ptsUs }) => ptsUs)).toEqual(before.map(({ ptsUs }) => ptsUs));
    const probed = await rig.ffprobe(result.outputPath, '-show_streams');
    expect(probed.streams.map(({ codec_type }) => codec_type)).toEqual(['video', 'audio']);
    expect(result.units.quantity).toBeCloseTo(1.08, 1);
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions.length).toBeGreaterThan(27);
    expect(fractions.at(-1)).toBe(1);
  });

  it('gives frames without a face to the encoder as they were, and touches nothing beside a face', async () => {
    const video = await clip('mixed.mp4', [uniform(4), portrait(6)]);
    const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
    const written: Uint8Array[] = [];
    const media: Media = {
      probe: rig.media.probe,
      decodeVideo: (...args) => rig.media.decodeVideo(...args),
      decodeAudio: (...args) => rig.media.decodeAudio(...args),
      async openWriter(options) {
        const writer = await rig.media.openWriter(options);
        return {
          write: async (frame) => {
            written.push(frame.data.slice());
            await writer.write(frame);
          },
          finish: (endUs) => writer.finish(endUs),
          abort: () => writer.abort(),
        };
      },
    };
    const outputDir = join(directory, `out-${count++}`);
    await mkdir(outputDir);
    const tools = {
      finder: new FaceFinder({ blazeface, facemesh }),
      checkpoint: () => undefined,
      signal: rig.signal,
      onProgress: () => undefined,
    };
    const { details } = await videoSwap({ video, face: ASTRONAUT, outputDir }, media, tools);
    expect(details).toMatchObject({ frames: 10, frames_with_swap: 6 });
    const before = await rig.frames(video);
    const same = written.map((data, i) => Buffer.compare(data, before[i]?.data ?? new Uint8Array()) === 0);
    expect(same).toEqual([...Array(4).fill(true), ...Array(6).fill(false)]);
    // Her face lies between columns 150 and 330; the sky beside it and the top of her hat do not change.
    for (const [x, y] of [
      [20, 180],
      [460, 180],
      [240, 8],
    ] as const) {
      const at = y * SIZE.width + x;
      expect(written[8]?.[at]).toBe(before[8]?.data[at]);
    }
  });

  it('bridges three frames in which the face is not to be recognised, and draws nothing over what hides it', async () => {
    const hidden = (from: number, to: number): Scene['change'] => {
      return (rgb, frame, { width, height }) => {
        if (frame < from || frame >= to) return;
        for (let y = 40; y < height - 40; y++) {
          for (let i = (y * width + 120) * 3; i < (y * width + 360) * 3; i++) rgb[i] = 90;
        }
      };
    };
    const video = await clip('lost.mp4', [{ ...portrait(22), change: hidden(9, 12) }]);
    const { details, outputPath } = await swap(video, ASTRONAUT);
    expect(details).toMatchObject({ faces: 1, frames: 22, frames_with_swap: 19, shots: 1 });
    const [before, after] = [await rig.frames(video), await rig.frames(outputPath)];
    const change = (i: number): number => {
      let sum = 0;
      for (let y = 120; y < 240; y++) {
        for (let x = 190; x < 290; x++) {
          const at = y * SIZE.width + x;
          sum += Math.abs((after[i]?.data[at] as number) - (before[i]?.data[at] as number));
        }
      }
      return sum / 12_000;
    };
    // A second encoding changes a frame by about a level, a swap by many.
    for (const i of [9, 10, 11]) expect(change(i)).toBeLessThan(2);
    for (const i of [0, 7, 8, 12, 13, 21]) expect(change(i)).toBeGreaterThan(4);
  });

  it('swaps all of several people and makes the output as small as wanted', async () => {
    const group = await readPicture(GROUP);
    const zoom = 640 / group.width;
    const scene: Scene = {
      picture: group,
      frames: 4,
      view: (i) => ({ x: group.width / 2 + i, y: group.height / 2, zoom }),
    };
    const path = rig.path('group.mp4');
    await makeClip(rig.media, { path, width: 640, height: 520, scenes: [scene] });
    const { details } = await swap(path, ASTRONAUT, { output_resolution_p: '480' });
    expect(details).toMatchObject({ frames: 4, frames_with_swap: 4, width: 590, height: 480 });
    expect(details.faces).toBeGreaterThanOrEqual(3);
  });

  it('knows a person again after a cut, and leaves alone the one beside her', async () => {
    const group = await readPicture(FOUR);
    // The woman on the right alone, both women, and the other one alone.
    const views = [
      { x: 1660, y: 455, zoom: 0.9 },
      { x: 1420, y: 480, zoom: 0.8 },
      { x: 1200, y: 510, zoom: 1.1 },
    ];
    const scenes = views.flatMap((view): Scene[] => {
      return [{ picture: group, frames: 4, view: (i) => ({ ...view, x: view.x + i }) }, uniform(2)];
    });
    const video = await clip('people.mp4', scenes);
    const { details, findings } = await swap(video, ASTRONAUT);
    expect(details).toMatchObject({ faces: 1, frames: 18, frames_with_swap: 8, shots: 6 });
    expect(findings?.faces).toEqual({ found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] });
  });

  it('tells of a feature that stays in most frames, and not of what passes in front of it', async () => {
    const board = admiral.data.slice();
    for (let y = 268; y < 330; y++)
      for (let x = 200; x < 330; x++) board.set([60, 110, 165], (y * admiral.width + x) * 3);
    const covered = { ...portrait(16), picture: { ...admiral, data: board } };
    const hints = async (name: string, scenes: readonly Scene[]) =>
      (await swap(await clip(name, scenes), ASTRONAUT)).findings?.hints;
    expect(await hints('covered.mp4', [portrait(8), covered])).toMatchObject([
      {
        code: 'feature_kept',
        message: expect.stringMatching(/^The mouth of a face stays as it was in most/),
      },
    ]);
    expect(await hints('passing.mp4', [portrait(16), { ...covered, frames: 4 }])).toEqual([]);
  });

  it('says whether the video or the picture shows no face', async () => {
    const video = await clip('nobody.mp4', [uniform(3)]);
    await expect(swap(video, ASTRONAUT)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('video_key'),
      findings: { faces: { found: 0, changed: 0, left: [] }, hints: [] },
    });
    const sky = await rig.make('sky.png', '-f lavfi -i color=skyblue:s=320x240:d=1 -frames:v 1');
    await expect(swap(video, sky)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('face_key'),
    });
  });

  it('stops within a second of a cancellation and leaves nothing behind', async () => {
    const video = await clip('long.mp4', [portrait(60)]);
    const took = await fairly(async (now) => {
      const abort = new AbortController();
      let stopped = 0;
      const ended = swap(video, ASTRONAUT, {}, abort.signal, (fraction) => {
        if (fraction < 0.1 || stopped) return;
        stopped = now();
        abort.abort(new Error('no longer wanted'));
      });
      await expect(ended).rejects.toThrow('no longer wanted');
      return now() - stopped;
    });
    expect(took).toBeLessThan(1000);
    // A thread that was terminated leaves the removal to the guard.
    await expect.poll(() => readdir(join(directory, `out-${count - 1}`))).toEqual([]);
  });
});
