import { describe, expect, it } from 'vitest';
import { liveSettings } from './settings.ts';

const RATE = { SEMBLANCE_LIVE_VOICE_RATE: 48_000, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: 960 };

describe('slots that nothing is said of', () => {
  it.each([
    [1, 8, 1],
    [2, 16, 1],
    [8, 64, 4],
    [64, 64, 32],
  ])(
    'on %i cores are %i of voice, as far as one thread carries them, and %i of live swaps',
    (cores, voice, video) => {
      const settings = liveSettings(RATE, cores);
      expect([settings.voiceSlots, settings.videoSlots]).toEqual([voice, video]);
    },
  );
});

it('takes what is said, beyond that too', () => {
  const said = { ...RATE, SEMBLANCE_LIVE_VOICE_SLOTS: 200, SEMBLANCE_LIVE_VIDEO_SLOTS: 0 };
  expect(liveSettings(said, 2)).toMatchObject({ voiceSlots: 200, videoSlots: 0 });
});

it.each([191, 48_001])('refuses chunks of %i samples, by which clients would be cut off', (chunk) => {
  const asked = { ...RATE, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: chunk };
  expect(() => liveSettings(asked, 2)).toThrow('must be from 192 to 48000');
});
