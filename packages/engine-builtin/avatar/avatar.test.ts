/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFileSync } from 'node:child_process';
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { findSpeechTools } from '@semblance/speech/tools';
import { fairly } from '@semblance/testkit/common/fair-clock';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { bestLag, correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createBuiltinEngine } from '../index.ts';
import { speakPortrait } from './avatar.ts';

/** Its sounds with closed lips are all voiceless, so the sound is silent while the lips are closed. */
const SCRIPT = 'Papa, pop a top hat. Hot apples!';

let rig: MediaRig;
let engine: Engine;
let count = 0;

beforeAll(async () => {
  rig = await openMediaRig();
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
}, 90_000);

afterAll(async () => {
  await engine.close();
  await rig.close();
});

async function outputDir(): Promise<string> {
  const path = rig.path(`out-${count++}`);
  execFileSync('mkdir', [path]);
  return path;
}

interface Wish {
  readonly parameters?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly onProgress?: (fraction: number, stage: string) => void;
}

async function render(image: string, wish: Wish = {}): Promise<RenderResult & { dir: string }> {
  const dir = await outputDir();
  const fractions: number[] = [];
  const result = await engine.render({
    capability: 'avatar',
    inputs: { image },
    parameters: { script: SCRIPT, ...wish.parameters },
    outputDir: dir,
    signal: wish.signal ?? rig.signal,
    onProgress: (fraction, stage) => {
      fractions.push(fraction);
      wish.onProgress?.(fraction, stage);
    },
  });
  expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
  expect(fractions.at(-1)).toBe(1);
  expect(await readdir(dir)).toEqual(['output.mp4']);
  return { ...result, dir };
}

describe('Avatar', () => {
  it('makes a portrait say a script, its mouth in step with the sound', async () => {
    const speech = await findSpeechTools();
    if (!speech.available) throw new Error(speech.reason);
    const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
    const finder = new FaceFinder({ blazeface, facemesh });
    const told: { open: number; closed: boolean; eyes: number }[] = [];
    const { signal } = rig;
    const { media } = rig;
    const result = await speakPortrait(
      { image: ADMIRAL, script: SCRIPT, shorterSide: 480, outputDir: await outputDir() },
      {
        media,
        finder,
        speech,
        signal,
        checkpoint: () => undefined,
        onProgress: () => undefined,
        onFrame: (_seconds, { open, rest, closed }, { expression }, { rig: { gaps } }) => {
          const seen = rest * (gaps[4] as number) + (1 - rest) * open;
          told.push({ open: seen, closed, eyes: expression.eyes?.[0] ?? 1 });
        },
      },
    );
    const seen = await measureVideo(media, finder, result.outputPath);
    expect(seen.missing).toBe(0);
    expect(seen.aperture.length).toBe(told.length);
    const open = told.map((one) => one.open);
    expect(correlation(open, seen.aperture)).toBeGreaterThan(0.9);
    expect(Math.abs(bestLag(open, seen.aperture))).toBeLessThanOrEqual(1);
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const closed = seen.aperture.filter((_, i) => told[i]?.closed);
    const wide = seen.aperture.filter((_, i) => (told[i]?.open ?? 0) > 0.15);
    expect(closed.length).toBeGreaterThan(4);
    expect(mean(wide)).toBeGreaterThan(3 * mean(closed));

    // Silence while the lips are pressed for p, sound while the mouth is wide open.
    const heard: number[] = [];
    for await (const chunk of media.decodeAudio(result.outputPath, { sampleRate: 16_000, signal }))
      heard.push(...chunk);
    const loudness = told.map((_, i) => {
      const part = heard.slice(i * 640, (i + 1) * 640);
      return Math.sqrt(mean(part.map((value) => value * value)));
    });
    expect(mean(loudness.filter((_, i) => (told[i]?.open ?? 0) > 0.15))).toBeGreaterThan(
      1.5 * mean(loudness.filter((_, i) => told[i]?.closed)),
    );
    expect(heard.length / 16_000).toBeCloseTo(told.length / 25, 1);
    const info = await media.probe(result.outputPath, 'video', signal);
    expect(info).toMatchObject({
      video: { width: 480, height: 562, frameRate: 25, variableRate: false, codec: 'h264' },
      audio: { codec: 'aac', sampleRate: 48_000, channels: 1 },
    });
    expect(result.units).toEqual({ unit: 'second', quantity: expect.closeTo(told.length / 25, 3) });
    expect(result.details).toMatchObject({ frames: told.length, voice: 'slt' });
  });

  it('is the same for the same job, is never larger than the portrait, and says which voice spoke', async () => {
    const parameters = { script: 'Ja. 你好。 ក', language: 'de', output_resolution_p: '1080' };
    const [first, second] = [
      await render(ASTRONAUT, { parameters }),
      await render(ASTRONAUT, { parameters }),
    ];
    expect(await readFile(first.outputPath)).toEqual(await readFile(second.outputPath));
    expect(first.details).toMatchObject({
      width: 512,
      height: 512,
      voice: 'espeak-ng/de',
      other_voices: 'espeak-ng/cmn-latn-pinyin',
      left_out: 'ក (Khmer)',
    });
    expect(first.findings).toEqual({
      faces: { found: 1, changed: 1, left: [] },
      hints: [
        { code: 'script_shortened', message: expect.stringContaining('ក (Khmer)') },
        { code: 'voice_default', message: expect.stringContaining('espeak-ng/de') },
      ],
    });
    expect(first.contentType).toBe('video/mp4');
    expect(first.stages.map(({ name }) => name)).toEqual(['portrait', 'speech', 'draw', 'write']);
  });

  it('has a voice that fits the person where that is sure, and takes the one that is named, with a hint', async () => {
    const demo = join(
      dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')),
      '..',
      'demo',
      'sample6.jpg',
    );
    const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
    const { picture } = await subjectOf(new FaceFinder({ blazeface, facemesh }), demo, 0, 320);
    const woman = rig.path('woman.png');
    const { width, height, data } = picture;
    await sharp(data, { raw: { width, height, channels: 3 } })
      .png()
      .toFile(woman);
    const said = async (parameters: Record<string, string>) => {
      const { details, findings } = await render(woman, { parameters: { script: 'Ja.', ...parameters } });
      return [details.voice, findings?.hints.some(({ code }) => code === 'voice_differs')];
    };
    expect(await said({ language: 'de' })).toEqual(['espeak-ng/de+f2', false]);
    expect(await said({ voice_id: 'slt' })).toEqual(['slt', false]);
    expect(await said({ voice_id: 'espeak-ng/de' })).toEqual(['espeak-ng/de', true]);
    // Whoever says what the voice is to sound like knows better than the picture.
    expect(await said({ language: 'de', voice_gender: 'male' })).toEqual(['espeak-ng/de', false]);
    expect(await said({ voice_gender: 'male' })).toEqual(['rms', false]);
  });

  it('tells of a default voice where the portrait does not say which would fit', async () => {
    const hintsOf = async (parameters: Record<string, string>) =>
      (await render(ADMIRAL, { parameters: { script: 'Hi.', ...parameters } })).findings?.hints;
    const hint = { code: 'voice_default', message: expect.stringContaining('voice_id') };
    expect(await hintsOf({})).toContainEqual(hint);
    expect(await hintsOf({ voice_id: 'rms' })).not.toContainEqual(hint);
  });

  it('does not show what was erased from the portrait', async () => {
    const erased = rig.path('erased.png');
    const hole = { create: { width: 120, height: 120, channels: 4 as const, background: '#000' } };
    await sharp(ASTRONAUT)
      .ensureAlpha()
      .composite([{ input: await sharp(hole).png().toBuffer(), left: 0, top: 0, blend: 'dest-out' }])
      .png()
      .toFile(erased);
    const kept = await sharp(erased)
      .removeAlpha()
      .extract({ left: 0, top: 0, width: 100, height: 100 })
      .stats();
    expect(kept.channels[0]?.mean).toBeLessThan(200);
    const { outputPath } = await render(erased, { parameters: { script: 'Hi.' } });
    const [frame] = await rig.frames(outputPath);
    // White in a video's levels.
    for (const at of [10, 50, 90]) expect(frame?.data[at * 512 + at]).toBeGreaterThan(228);
  });

  it.each([
    ['a voice that is not there', { voice_id: 'nobody' }, 'processing_failed', /no voice "nobody"/],
    ['words that no voice reads', { script: 'Hello ខ្មែរ!' }, 'processing_failed', /Khmer \("ខ្មែរ"\)/],
    ['nothing to say', { script: '… 😀 !' }, 'processing_failed', /nothing to say/],
  ])('refuses %s', async (_what, parameters, code, message) => {
    await expect(render(ASTRONAUT, { parameters })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it('refuses a picture without a face, and what is none', async () => {
    const grey = await rig.make('grey.png', '-f lavfi -i color=gray:s=320x240 -frames:v 1');
    await expect(render(grey)).rejects.toMatchObject({ code: 'face_not_detected' });
    const text = rig.path('text.png');
    await writeFile(text, 'no picture');
    await expect(render(text)).rejects.toMatchObject({ code: 'unsupported_format' });
  });

  it.each(['speech', 'animate'])(
    'ends within a second when it is cancelled while it is at "%s"',
    async (at) => {
      const script = 'A sentence that goes on for a while. '.repeat(100);
      const took = await fairly(async (now) => {
        const abort = new AbortController();
        let since = 0;
        const onProgress = (_fraction: number, stage: string) => {
          if (stage !== at || since) return;
          since = now();
          abort.abort(new Error('cancelled by its owner'));
        };
        const rendering = render(ASTRONAUT, {
          parameters: { script: at === 'speech' ? script : SCRIPT },
          signal: abort.signal,
          onProgress,
        });
        await expect(rendering).rejects.toThrow('cancelled by its owner');
        return now() - since;
      });
      expect(took).toBeLessThan(1_000);
      await expect
        .poll(async () =>
          (await readdir(rig.path(`out-${count - 1}`))).filter((name) => name !== 'output.mp4'),
        )
        .toEqual([]);
    },
  );

  it.each([
    ['ffmpeg', 'ffmpeg', []],
    ['a synthesiser', 'flite', ['ffmpeg', 'ffprobe'] as const],
  ])('is not offered without %s, and that is said', async (_what, program, present) => {
    const bin = await outputDir();
    for (const name of present) await symlink(rig.tools[name], join(bin, name));
    vi.stubEnv('PATH', bin);
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const other = createBuiltinEngine({ threads: 1 });
    try {
      await other.warmUp(AbortSignal.timeout(60_000));
      expect(other.capabilities.map(({ capability }) => capability)).not.toContain('avatar');
      const reason = expect.stringContaining(`${program} is not on PATH`);
      expect(warn.mock.calls).toContainEqual([reason, { capabilities: expect.arrayContaining(['avatar']) }]);
      const told = { capability: 'avatar', message: reason };
      expect(other.unavailable).toContainEqual(told);
      expect(other.capabilities.length + (other.unavailable?.length ?? 0)).toBe(6);
    } finally {
      warn.mockRestore();
      vi.unstubAllEnvs();
      await other.close();
    }
  });
});
