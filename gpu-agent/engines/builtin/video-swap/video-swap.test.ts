import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type MediaRig, openMediaRig } from '../../../media/testing/clips.ts';
import type { Engine, RenderResult } from '../../engine.ts';
import { createBuiltinEngine } from '../index.ts';
import { ADMIRAL, ASTRONAUT } from '../testing/swap-rig.ts';
import type { Picture } from '../vision/picture.ts';
import { makeClip, readPicture, type Scene } from './testing/clips.ts';

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

/** The admiral's head and shoulders, the camera swaying. */
function portrait(frames: number): Scene {
  return {
    picture: admiral,
    frames,
    view: (i) => ({ x: 255 + 3 * Math.sin(i / 4), y: 190, zoom: 1, turn: 0.05 * Math.sin(i / 6) }),
  };
}

/** Her uniform: no face is to be seen. */
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
});
