/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ServiceError, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { startGrpcServer } from '@semblance/common/grpc/server';
import { silentLogger } from '@semblance/common/logging';
import { loadVoices } from '@semblance/common/voices/load-voices';
import { type Voice, voiceDefinition } from '@semblance/common/voices/voice';
import { VoiceServiceClient } from '@semblance/proto/semblance/live/v1/live';
import { formantFactor, levelDb, median, pitchOf, spectrum } from '@semblance/testkit/voice/analysis';
import { speech, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { CEILING } from '@semblance/voice/internal/limiter';
import { PREVIEW_RATE, PREVIEW_SEC, previewSound } from '@semblance/voice/internal/preview/preview-sound';
import { createPreviews, type Previews } from '@semblance/voice/preview/preview';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createAgentMetrics } from '../metrics.ts';
import { createVoiceService } from './voice-service.ts';

const GENERATOR = { name: 'Semblance', version: '1.2.3' };
const NEVER = new AbortController().signal;
const run = promisify(execFile);
const voices = await loadVoices();
const alto = voices.get('calm-alto') as Voice;
const middle = ({ pitchHz: { low, high } }: Voice) => Math.sqrt(low * high);

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-preview-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Decodes a WAV file with ffmpeg. */
async function decoded(wav: Uint8Array): Promise<Int16Array> {
  const path = join(directory, 'heard.wav');
  await writeFile(path, wav);
  const { stdout } = await run('ffmpeg', ['-v', 'error', '-i', path, '-f', 's16le', '-'], {
    encoding: 'buffer',
    maxBuffer: 1 << 24,
  });
  await rm(path);
  return new Int16Array(new Uint8Array(stdout).buffer);
}

describe('previews', () => {
  const made = new Map<string, { readonly wav: Buffer; readonly sound: Int16Array }>();
  beforeAll(async () => {
    const previews = createPreviews({ directory, generator: GENERATOR });
    for (const voice of voices.values()) {
      const wav = await previews.make(voice, NEVER);
      made.set(voice.id, { wav, sound: await decoded(wav) });
    }
  });
  const pitchesOf = (id: string) =>
    pitchOf(made.get(id)?.sound ?? new Int16Array(), PREVIEW_RATE).filter((hz) => hz > 0);

  it.each([...voices.values()])('of $id speaks in its range, neither loud nor soft, for seconds', (voice) => {
    const { sound } = made.get(voice.id) as { sound: Int16Array };
    expect(sound.length / PREVIEW_RATE).toBeGreaterThan(2.5);
    expect(sound.length / PREVIEW_RATE).toBeLessThanOrEqual(PREVIEW_SEC);
    const pitches = pitchesOf(voice.id);
    expect(median(pitches) / middle(voice)).toBeGreaterThan(0.95);
    expect(median(pitches) / middle(voice)).toBeLessThan(1.05);
    const { low, high } = voice.pitchHz;
    const inside = pitches.filter((hz) => hz >= low && hz <= high);
    expect(inside.length / pitches.length).toBeGreaterThan(0.75);
    expect(levelDb(sound)).toBeGreaterThan(-24);
    expect(levelDb(sound)).toBeLessThan(-17);
    expect(sound.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0)).toBeLessThan(0.9 * 32_768);
    // The preview begins and ends in silence.
    for (const edge of [sound.subarray(0, 480), sound.subarray(-480)])
      expect(levelDb(edge)).toBeLessThan(-45);
  });

  it('differ from voice to voice', () => {
    const heights = [...voices.keys()].map((id) => median(pitchesOf(id))).sort((a, b) => a - b);
    for (const [i, hz] of heights.slice(1).entries())
      expect(hz / (heights[i] as number)).toBeGreaterThan(1.12);
  });

  it('say that an algorithm made them', async () => {
    const { wav } = made.get('calm-alto') as { wav: Buffer };
    expect(wav.readUInt32LE(4)).toBe(wav.length - 8);
    expect(wav.subarray(wav.indexOf('_PMX')).toString()).toContain(
      'DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"',
    );
    const path = join(directory, 'tags.wav');
    await writeFile(path, wav);
    const { stdout } = await run('ffprobe', ['-v', 'error', '-show_format', '-of', 'json', path]);
    await rm(path);
    expect(JSON.parse(stdout).format.tags).toMatchObject({
      encoder: 'Semblance 1.2.3',
      comment: expect.stringContaining('Made by an algorithm'),
    });
  });

  it('leave nothing on disk', async () => {
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('the sound of a preview', () => {
  it('has the formants of the voice', async () => {
    // A gliding pitch also shows the formants between harmonics.
    const samples = vowel({ hz: 150, formants: VOWELS.ae, seconds: 2, glide: 0.12 });
    const plain = { ...alto, formantShift: 1, timbre: [] };
    const shifted = { ...plain, formantShift: 1.2 };
    const soundOf = async (voice: Voice) =>
      // The spectrum expects 48 kHz, and the preview has half that rate, so its samples are doubled.
      spectrum(doubled(await previewSound({ samples, sampleRate: 48_000 }, voice)), 150);
    const [from, to] = [await soundOf(plain), await soundOf(shifted)];
    expect(formantFactor(from, to)).toBeGreaterThan(1.15);
    expect(formantFactor(from, to)).toBeLessThan(1.25);
  });

  it('is cut off softly where it takes too long', async () => {
    const samples = vowel({ hz: 150, formants: VOWELS.a, seconds: 5 });
    const sound = await previewSound({ samples, sampleRate: 48_000 }, alto);
    expect(sound.length).toBe(PREVIEW_SEC * PREVIEW_RATE);
    expect(Math.abs(sound.at(-1) as number)).toBe(0);
    expect(levelDb(sound.subarray(-240))).toBeLessThan(levelDb(sound.subarray(-4_800, -2_400)) - 15);
  });

  it('stays 2 dB below full scale where single peaks are far above the speech', async () => {
    const samples = (await speech('flite slt')).map((sample) => Math.round(0.1 * sample));
    for (let i = 20_000; i < samples.length; i += 30_000) samples[i] = 32_767;
    const sound = await previewSound({ samples, sampleRate: 48_000 }, alto);
    const peak = sound.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    expect(peak).toBeLessThanOrEqual(CEILING);
    expect(peak).toBeGreaterThan(0.9 * CEILING);
  });

  it('is as loud as others, however loud the synthesiser was', async () => {
    const samples = await speech('flite slt');
    const levelAt = async (gain: number) => {
      const scaled = samples.map((sample) => Math.round(gain * sample));
      return levelDb(await previewSound({ samples: scaled, sampleRate: 48_000 }, alto));
    };
    const [soft, loud] = [await levelAt(0.35), await levelAt(1)];
    // The levels of the two inputs differ by 9 dB.
    expect(Math.abs(soft - loud)).toBeLessThan(1);
    await expect(previewSound({ samples: new Int16Array(48_000), sampleRate: 48_000 }, alto)).rejects.toThrow(
      'silent',
    );
  });

  it('lets other work go on, and ends when nobody waits for it', async () => {
    const samples = vowel({ hz: 150, formants: VOWELS.a, seconds: 2 });
    const ending = new AbortController();
    let turns = 0;
    const beside = setInterval(() => ++turns === 5 && ending.abort(new Error('gone')));
    const making = previewSound({ samples, sampleRate: 48_000 }, alto, ending.signal);
    await expect(making).rejects.toThrow('gone');
    clearInterval(beside);
    expect(turns).toBeGreaterThanOrEqual(5);
  });
});

describe('the service', () => {
  const open = async (previews: Previews) => {
    const metrics = createAgentMetrics(new Registry(), {
      slots: () => 0,
      slotsUsed: () => 0,
      unacknowledged: () => 0,
    });
    const service = createVoiceService({ previews, logger: silentLogger(), metrics });
    const server = await startGrpcServer({ listen: { host: '127.0.0.1', port: 0 }, services: [service] });
    const client = createClient(VoiceServiceClient, `127.0.0.1:${server.port}`);
    return {
      preview: (voice: string, signal?: AbortSignal) =>
        call(
          client.previewVoice.bind(client),
          { voice },
          { timeoutMs: 60_000, ...(signal ? { signal } : {}) },
        ),
      async close() {
        client.close();
        await server.close();
      },
    };
  };
  const definition = JSON.stringify(voiceDefinition(alto));

  it('answers a preview, refuses a second beside it and what is no voice', async () => {
    const { preview, close } = await open(createPreviews({ directory, generator: GENERATOR }));
    const answers = await Promise.allSettled([preview(definition), preview(definition)]);
    const made = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value.wav] : []));
    const refused = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
    expect(made).toHaveLength(1);
    expect(made[0]?.subarray(0, 4).toString()).toBe('RIFF');
    expect(refused).toMatchObject([{ code: status.RESOURCE_EXHAUSTED }]);
    for (const wrong of [
      '',
      '{}',
      '{',
      'null',
      JSON.stringify({ ...voiceDefinition(alto), formant_shift: 9 }),
    ])
      await expect(preview(wrong), wrong).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await close();
  });

  it('says what is missing, and finds it once it is there', async () => {
    const { preview, close } = await open(createPreviews({ directory, generator: GENERATOR }));
    vi.stubEnv('PATH', '/nowhere');
    const refusal = (await preview(definition).catch((error: unknown) => error)) as ServiceError;
    expect(refusal).toMatchObject({ code: status.FAILED_PRECONDITION });
    expect(refusal.details).toContain('flite is not on PATH');
    vi.unstubAllEnvs();
    expect((await preview(definition)).wav.length).toBeGreaterThan(100_000);
    await close();
  });

  it('ends the work of a caller that has gone', async () => {
    const { preview, close } = await open(createPreviews({ directory, generator: GENERATOR }));
    const gone = new AbortController();
    const left = preview(definition, gone.signal);
    setTimeout(() => gone.abort(), 50);
    await expect(left).rejects.toMatchObject({ code: status.CANCELLED });
    // The aborted preview frees its place, so the next caller is soon served.
    await expect
      .poll(() =>
        preview(definition).then(
          () => 'made',
          ({ code }: ServiceError) => code,
        ),
      )
      .toBe('made');
    await close();
    expect(await readdir(directory)).toEqual([]);
  });

  it('speaks with espeak-ng where flite does not run', async () => {
    const bin = join(directory, 'bin');
    await mkdir(bin);
    await writeFile(join(bin, 'flite'), '#!/bin/sh\nexit 3\n', { mode: 0o755 });
    vi.stubEnv('PATH', `${bin}:${process.env.PATH}`);
    const spoken = await createPreviews({ directory, generator: GENERATOR }).make(alto, NEVER);
    vi.unstubAllEnvs();
    const sound = await decoded(spoken);
    const pitches = pitchOf(sound, PREVIEW_RATE).filter((hz) => hz > 0);
    expect(median(pitches) / middle(alto)).toBeGreaterThan(0.95);
    expect(median(pitches) / middle(alto)).toBeLessThan(1.05);
  });
});

function doubled(sound: Int16Array): Int16Array {
  return Int16Array.from({ length: 2 * sound.length - 1 }, (_, i) =>
    Math.round(((sound[i >> 1] as number) + (sound[(i + 1) >> 1] as number)) / 2),
  );
}
