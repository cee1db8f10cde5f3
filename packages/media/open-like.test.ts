import { expect, it, vi } from 'vitest';
import { openLike } from './open-like.ts';
import type { ColorTags, VideoFile, VideoWriter } from './types.ts';

const COLOR: ColorTags = { range: 'tv', space: 'smpte170m', primaries: 'smpte170m', transfer: 'bt709' };
const OTHER: ColorTags = { range: 'pc', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };
const FILE: VideoFile = {
  container: 'mov',
  durationSec: 2,
  video: {
    width: 640,
    height: 480,
    frameRate: 29.97,
    variableRate: false,
    frameCount: 60,
    endUs: 2_000_000,
    codec: 'h264',
    color: COLOR,
  },
};
const AUDIO = { codec: 'aac', sampleRate: 48_000, channels: 2 };
const { signal } = new AbortController();
const options = { path: 'out.mp4', width: 64, height: 48, signal };

it.each([
  ['its colours, rate and sound', { ...FILE, audio: AUDIO }, {}, { color: COLOR, audio: { path: 'in.mp4' } }],
  ['no sound where it has none', FILE, {}, { color: COLOR }],
  ['other colours where they are given', FILE, { color: OTHER }, { color: OTHER }],
])('a writer like another video has %s', async (_what, file, more, expected) => {
  const openWriter = vi.fn(async () => ({}) as VideoWriter);
  await openLike({ openWriter }, { path: 'in.mp4', ...file }, { ...options, ...more });
  expect(openWriter).toHaveBeenCalledWith({ ...options, frameRate: 29.97, ...expected });
});
