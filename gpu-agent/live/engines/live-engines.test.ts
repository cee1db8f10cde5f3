import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { describe, expect, it } from 'vitest';
import { loadSettings } from '../../settings.ts';
import { createLiveEngines } from './live-engines.ts';

const enginesOf = async (env: NodeJS.ProcessEnv) => {
  const { engines, unavailable } = await createLiveEngines({
    settings: loadSettings({ SEMBLANCE_LIVE_VOICE_SLOTS: '3', SEMBLANCE_LIVE_VIDEO_SLOTS: '2', ...env }).live,
    onnx: undefined,
    logger: silentLogger(),
    onChange: () => {},
    onCrash: () => {},
  });
  return { names: engines.map(({ capability }) => capability), engines, unavailable };
};

describe('the live engines of an agent', () => {
  it('are those with slots, and none is ready before it is warm', async () => {
    const { names, engines, unavailable } = await enginesOf({});
    expect(names).toEqual(['voice', 'full-live-swap']);
    expect(engines.map(({ slots, warming }) => [slots, warming])).toEqual([
      [0, true],
      [0, true],
    ]);
    expect(unavailable).toEqual([]);
    expect((await enginesOf({ SEMBLANCE_LIVE_VIDEO_SLOTS: '0' })).names).toEqual(['voice']);
    expect((await enginesOf({ SEMBLANCE_LIVE_VOICE_SLOTS: '0' })).names).toEqual(['full-live-swap']);
  });

  it('go without live swaps, and say why, when a character of the owner cannot be used', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'semblance-characters-'));
    try {
      await mkdir(join(dir, 'broken'));
      await writeFile(join(dir, 'broken', 'character.json'), '{"name":"Broken"}');
      const { names, unavailable } = await enginesOf({ SEMBLANCE_CHARACTER_DIR: dir });
      expect(names).toEqual(['voice']);
      expect(unavailable).toEqual([
        { name: 'full-live-swap', message: expect.stringContaining(join(dir, 'broken')) },
      ]);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('give the sound that the settings say', async () => {
    const { engines } = await enginesOf({
      SEMBLANCE_LIVE_VOICE_RATE: '16000',
      SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: '320',
    });
    const stream = await engines[0]?.open({
      settings: {},
      inputs: {},
      signal: new AbortController().signal,
      onFailed: () => {},
    });
    expect(stream?.firstFrame).toBe('{"sample_rate":16000,"chunk_frames":320}');
    expect(stream?.maxMessageBytes).toBe(32_000);
  });

  it.each([
    [48_000, 192, true],
    [48_000, 191, false],
    [48_000, 48_000, true],
    [8_000, 8_000, true],
    [8_000, 8_001, false],
    [8_000, 31, false],
    [11_025, 44, false],
    [11_025, 45, true],
  ])('at %i samples a second, %i in a message: %s', (rate, chunk, good) => {
    const load = () =>
      loadSettings({
        SEMBLANCE_LIVE_VOICE_RATE: String(rate),
        SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: String(chunk),
      }).live;
    if (good) expect(load()).toMatchObject({ voiceRate: rate, voiceChunkFrames: chunk });
    else
      expect(load).toThrow(
        new RegExp(`SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: must be from .* SEMBLANCE_LIVE_VOICE_RATE is ${rate}`),
      );
  });

  it.each(['SEMBLANCE_LIVE_VOICE_SLOTS', 'SEMBLANCE_LIVE_VOICE_RATE', 'SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES'])(
    'refuse a %s that is none',
    (name) => {
      expect(() => loadSettings({ [name]: '1000000' })).toThrow(name);
    },
  );
});
