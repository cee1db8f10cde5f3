/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import type { VideoFrame } from '@semblance/media/types';
import { speakScript } from '@semblance/speech/speech';
import { findSpeechTools } from '@semblance/speech/tools';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { watchMouth } from '@semblance/testkit/engine-builtin/lip-sync/watch-mouth';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { correlation } from '@semblance/testkit/sound/correlation';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createBuiltinEngine } from '../index.ts';

const ASTRONAUT = join(import.meta.dirname, '..', '..', '..', 'media', 'astronaut.png');
/** A head from a still that nods and leans. */
const HEAD =
  `-loop 1 -i ${ASTRONAUT} -vf ` +
  '"scale=520:-2,rotate=0.05*sin(4*t):c=gray,crop=360:360:60:4*sin(3*t),setsar=1" -r 25 -c:v libx264 -crf 14 -pix_fmt yuv420p';

const PORTRAIT = join(import.meta.dirname, '..', '..', '..', 'media', 'grace_hopper.jpg');
let rig: MediaRig;
let engine: Engine;
let voice: string;
let head: string;

beforeAll(async () => {
  rig = await openMediaRig();
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  voice = rig.path('voice.wav');
  await speakScript({
    script: 'My father bought a big map of Panama.',
    voiceId: 'slt',
    path: voice,
    directory: rig.dir,
    tools,
    signal: rig.signal,
  });
  head = await rig.make('head.mp4', `${HEAD} -t 1.6`);
}, 90_000);

afterAll(async () => {
  await engine.close();
  await rig.close();
});

async function render(
  inputs: Record<string, string>,
  options: { parameters?: Record<string, string>; signal?: AbortSignal; onProgress?: () => void } = {},
): Promise<RenderResult & { dir: string }> {
  const dir = await mkdtemp(join(rig.dir, 'out-'));
  const fractions: number[] = [];
  const result = await engine.render({
    capability: 'lip-sync',
    inputs,
    parameters: options.parameters ?? {},
    outputDir: dir,
    signal: options.signal ?? rig.signal,
    onProgress: (fraction) => {
      fractions.push(fraction);
      options.onProgress?.();
    },
  });
  expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
  expect(fractions.at(-1)).toBe(1);
  return { ...result, dir };
}

describe('Lip Sync', () => {
  it('makes the face speak the sound for as long as that goes on', async () => {
    const result = await render({ video: head, audio: voice });
    const seconds = (await rig.samples(voice, 16_000)).length / 16_000;
    // The video is shorter, so it is played forth and back.
    expect(seconds).toBeGreaterThan(1.8);
    expect(result).toMatchObject({ contentType: 'video/mp4', units: { unit: 'second' } });
    expect(result.units.quantity).toBeCloseTo(seconds, 2);
    expect(await readdir(result.dir)).toEqual(['output.mp4']);
    const { streams } = await rig.ffprobe(result.outputPath, '-show_streams');
    expect(streams.map(({ codec_type }) => codec_type).sort()).toEqual(['audio', 'video']);
    const frames = await rig.frames(result.outputPath);
    expect(frames).toHaveLength(Math.ceil(seconds * 25 - 1e-6));
    expect(result.details).toMatchObject({ frames: frames.length, frames_with_face: frames.length });
    expect(result.findings).toEqual({ faces: { found: 1, changed: 1, left: [] }, hints: [] });
    const { aperture, told } = await watchMouth(frames, await rig.samples(voice, 16_000));
    expect(correlation(aperture, told)).toBeGreaterThan(0.85);
    for (const lag of [-2, 2]) {
      const late = told.slice(Math.max(0, -lag), told.length - Math.max(0, lag));
      const early = aperture.slice(Math.max(0, lag), aperture.length - Math.max(0, -lag));
      expect(correlation(early, late)).toBeLessThan(correlation(aperture, told));
    }
  }, 90_000);

  it('lets a last frame that stands long stand, speaks on in it, and turns back then', async () => {
    const clip = rig.path('standing.mp4');
    const moving = (await rig.frames(head)).slice(0, 12);
    const { video } = await rig.media.probe(head, 'video', rig.signal);
    if (!video) throw new Error('no video');
    const { width, height, color } = video;
    const writer = await rig.media.openWriter({
      path: clip,
      width,
      height,
      color,
      frameRate: 25,
      signal: rig.signal,
    });
    for (const frame of moving) await writer.write(frame);
    await writer.finish(1_400_000);
    const { outputPath } = await render({ video: clip, audio: voice });
    const frames = await rig.frames(outputPath);
    const samples = await rig.samples(voice, 16_000);
    expect(frames).toHaveLength(Math.ceil((samples.length / 16_000) * 25 - 1e-6));
    const shown = await rig.frames(clip);
    // The forehead moves with the head only.
    const forehead = (frame: VideoFrame | undefined) => frame && { ...frame, height: height / 4 };
    for (let i = 12; i < 35; i++)
      expect(difference(forehead(frames[i]), forehead(shown[11]))).toBeLessThan(2);
    for (let i = 35; i < 40; i++)
      expect(difference(forehead(frames[i]), forehead(shown[45 - i]))).toBeLessThan(2);
    expect(difference(forehead(shown[5]), forehead(shown[11]))).toBeGreaterThan(4);
    const { aperture, told } = await watchMouth(frames, samples);
    const best = correlation(aperture, told);
    expect(best).toBeGreaterThan(0.85);
    expect(correlation(aperture.slice(0, -2), told.slice(2))).toBeLessThan(best);
    expect(correlation(aperture.slice(2), told.slice(0, -2))).toBeLessThan(best);
  }, 90_000);

  it('passes frames without a face as they are, at the size that is asked for', async () => {
    const clip = await rig.make(
      'late.mp4',
      `-f lavfi -i "testsrc=s=360x360:r=25:d=0.4" -i ${head} -filter_complex "[0]format=yuv420p,setsar=1[a];[1]trim=end=0.6[b];[a][b]concat=n=2" -c:v libx264 -crf 12`,
    );
    const result = await render(
      { video: clip, audio: voice },
      { parameters: { output_resolution_p: '240' } },
    );
    expect(result.details).toMatchObject({ width: 240, height: 240 });
    expect(result.details.frames_with_face).toBeGreaterThan(10);
    expect(result.details.frames_with_face).toBeLessThan(Number(result.details.frames) - 10);
    expect(result.findings?.hints).toMatchObject([{ code: 'frames_unchanged', input: 'video' }]);
    const before = await rig.frames(clip, { width: 240, height: 240 });
    const after = await rig.frames(result.outputPath);
    for (const i of [0, 4, 8]) expect(difference(before[i], after[i])).toBeLessThan(3);
  }, 90_000);

  it('refuses a video in which nobody is seen, and leaves nothing behind', async () => {
    const clip = await rig.make('nobody.mp4', '-f lavfi -i "testsrc=s=320x240:r=25:d=0.4" -pix_fmt yuv420p');
    await expect(render({ video: clip, audio: voice })).rejects.toMatchObject({
      code: 'face_not_detected',
      findings: { faces: { found: 0, changed: 0, left: [] }, hints: [] },
    });
    const outputs = (await rig.files())
      .filter((name) => name.startsWith('out-'))
      .map((name) => rig.path(name));
    const left = await Promise.all(outputs.map((dir) => readdir(dir)));
    expect(left.flat().filter((name) => name !== 'output.mp4')).toEqual([]);
  }, 60_000);

  it('refuses a video in which a board is always in front of the mouth, and tells so', async () => {
    const board = 'drawbox=x=165:y=255:w=195:h=90:color=silver:t=fill,format=yuv420p';
    const clip = await rig.make('board.mp4', `-loop 1 -framerate 25 -i ${PORTRAIT} -t 0.4 -vf ${board}`);
    await expect(render({ video: clip, audio: voice })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('in front of the mouth'),
      findings: {
        faces: { found: 1, changed: 0, left: [{ reason: 'covered', count: 1 }] },
        hints: [{ code: 'face_covered', input: 'video' }],
      },
    });
  }, 60_000);

  it('refuses a video without sound where the sound is asked for', async () => {
    await expect(render({ video: head, audio: head })).rejects.toMatchObject({ code: 'unsupported_format' });
  }, 30_000);

  it('ends within a second of its cancellation', async () => {
    const long = await rig.make('long.wav', `-stream_loop 9 -i ${voice} -c copy`);
    const took = await fairly(async (now) => {
      const abort = new AbortController();
      let since = 0;
      let steps = 0;
      const running = render(
        { video: head, audio: long },
        {
          signal: abort.signal,
          onProgress: () => {
            if (++steps !== 8) return;
            since = now();
            abort.abort(new Error('not wanted any more'));
          },
        },
      );
      await expect(running).rejects.toThrow('not wanted any more');
      return now() - since;
    });
    expect(took).toBeLessThan(1000);
  }, 60_000);
});

describe('a machine without ffmpeg', () => {
  it('is not offered what needs it, and says why', async () => {
    vi.stubEnv('PATH', '/nonexistent');
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const bare = createBuiltinEngine({ threads: 1 });
    try {
      await bare.warmUp(AbortSignal.timeout(60_000));
      expect(bare.capabilities.map(({ capability }) => capability)).toEqual(['face-swap-image']);
      expect(warn.mock.calls).toContainEqual([
        expect.stringContaining('ffmpeg is not on PATH'),
        { capabilities: expect.arrayContaining(['lip-sync']) },
      ]);
      const directory = await mkdtemp(join(tmpdir(), 'semblance-lip-sync-'));
      await expect(
        bare.render({
          capability: 'lip-sync',
          inputs: { video: head, audio: voice },
          parameters: {},
          outputDir: directory,
          signal: rig.signal,
          onProgress: () => undefined,
        }),
      ).rejects.toMatchObject({ code: 'processing_failed' });
      await rm(directory, { recursive: true });
    } finally {
      await bare.close();
    }
  }, 60_000);
});

/** Returns the mean difference of luma. */
function difference(a: VideoFrame | undefined, b: VideoFrame | undefined): number {
  if (!a || !b) return Number.NaN;
  const n = a.width * a.height;
  let sum = 0;
  for (let i = 0; i < n; i++) sum += Math.abs((a.data[i] as number) - (b.data[i] as number));
  return sum / n;
}
