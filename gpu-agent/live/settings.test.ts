import { loadConfig } from '@semblance/common/config';
import { describe, expect, it } from 'vitest';
import { liveSettings, liveShape } from './settings.ts';

const RATE = { SEMBLANCE_LIVE_VOICE_RATE: 48_000, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: 960 };

const SMALL = { cores: 2, memoryMib: 2_304 };

describe('slots that nothing is said of', () => {
  it.each([
    [1, 8],
    [2, 16],
    [8, 64],
    [64, 64],
  ])('are, on %i cores, %i of voice: what one thread carries at most', (cores, voice) => {
    expect(liveSettings(RATE, { ...SMALL, cores })).toMatchObject({
      voiceSlots: voice,
      voiceSlotsGiven: false,
    });
  });

  it.each([
    // The chart gives an agent this much on nodes of any size.
    [1, 2_304, 1],
    [16, 2_304, 1],
    [16, 2_603, 1],
    [16, 2_604, 2],
    [16, 1_000, 1],
    [2, 131_072, 1],
    [16, 131_072, 8],
  ])('are, on %i cores with %i MiB, %i of live swaps', (cores, memoryMib, video) => {
    expect(liveSettings(RATE, { cores, memoryMib }).videoSlots).toBe(video);
  });
});

it('reads which stages live swaps use, and refuses others and the same twice', () => {
  const asked = (SEMBLANCE_LIVE_VIDEO_STAGES: string) =>
    liveSettings(loadConfig(liveShape, { SEMBLANCE_LIVE_VIDEO_STAGES }), SMALL).videoStages;
  expect(asked('')).toEqual([]);
  expect(asked(' parser, enhancer ')).toEqual(['parser', 'enhancer']);
  for (const wrong of ['swapper', 'enhancer,lips', 'enhancer,enhancer'])
    expect(() => asked(wrong)).toThrow(/SEMBLANCE_LIVE_VIDEO_STAGES/);
});

it('takes what is said, beyond that too', () => {
  const said = { ...RATE, SEMBLANCE_LIVE_VOICE_SLOTS: 200, SEMBLANCE_LIVE_VIDEO_SLOTS: 5 };
  expect(liveSettings(said, SMALL)).toMatchObject({ voiceSlots: 200, voiceSlotsGiven: true, videoSlots: 5 });
  expect(liveSettings({ ...said, SEMBLANCE_LIVE_VIDEO_SLOTS: 0 }, SMALL).videoSlots).toBe(0);
});

it.each([191, 48_001])('refuses chunks of %i samples, by which clients would be cut off', (chunk) => {
  const asked = { ...RATE, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: chunk };
  expect(() => liveSettings(asked, SMALL)).toThrow('must be from 192 to 48000');
});

describe('the context of voices by models', () => {
  const asked = (SEMBLANCE_LIVE_VOICE_CONTEXT_MS: string) =>
    liveSettings(loadConfig(liveShape, { SEMBLANCE_LIVE_VOICE_CONTEXT_MS }), SMALL).voiceContextMs;

  it('is 0.64 s, or what is said', () => {
    expect(liveSettings(loadConfig(liveShape, {}), SMALL).voiceContextMs).toBe(640);
    expect([asked('640'), asked('2560')]).toEqual([640, 2_560]);
  });

  it.each(['639', '2880', '1000', 'long'])('is not %s', (ms) => {
    expect(() => asked(ms)).toThrow(/SEMBLANCE_LIVE_VOICE_CONTEXT_MS: must be /);
  });
});

it('reads the sockets of programs that carry sessions, and leaves the slots to them unless they are set', () => {
  const env = {
    SEMBLANCE_LIVE_VOICE_SIDECAR: '/run/a/engine.sock',
    SEMBLANCE_LIVE_VIDEO_SIDECAR: '/run/b/engine.sock',
    SEMBLANCE_LIVE_VIDEO_SLOTS: '3',
  };
  expect(liveSettings(loadConfig(liveShape, env), SMALL)).toMatchObject({
    voiceSidecar: '/run/a/engine.sock',
    voiceSlotsGiven: false,
    videoSidecar: '/run/b/engine.sock',
    videoSlotsGiven: true,
    videoSlots: 3,
  });
  expect(liveSettings(RATE, SMALL)).toMatchObject({ voiceSidecar: undefined, videoSlotsGiven: false });
  for (const path of ['engine.sock', `/${'x'.repeat(100)}`])
    expect(() => loadConfig(liveShape, { SEMBLANCE_LIVE_VOICE_SIDECAR: path })).toThrow('at most 100 bytes');
});
