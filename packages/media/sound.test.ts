/** @module-tag ffmpeg */

import {
  beeps,
  beepTimes,
  flashes,
  flashTimes,
  type MediaRig,
  numberedFrames,
  openMediaRig,
} from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const RATE = 16_000;
/** Length of a frame at 25 per second, in seconds. */
const FRAME = 0.04;
let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

/** Returns the delay of each beep after its flash, in seconds. */
async function lags(file: string): Promise<number[]> {
  const flashed = flashTimes(await rig.frames(file));
  const beeped = beepTimes(await rig.samples(file, RATE), RATE);
  expect(beeped.length).toBe(flashed.length);
  return beeped.map((time, i) => time - (flashed[i] as number));
}
const expectTogether = (all: readonly number[]) => {
  expect(all.length).toBeGreaterThan(0);
  for (const lag of all) expect(Math.abs(lag)).toBeLessThan(FRAME);
};

describe('sound and picture', () => {
  it.each([
    ['together.mp4', '-c:v libx264 -c:a aac'],
    ['together.ts', '-c:v libx264 -c:a mp2'],
    ['together.webm', '-c:v libvpx -b:v 500k -c:a libopus'],
    ['together.avi', '-c:v mpeg4 -bf 2 -c:a mp3'],
    ['together.mov', '-c:v libx264 -c:a pcm_s16le'],
    ['shifted.ts', '-c:v libx264 -c:a aac -output_ts_offset 3000'],
  ])('of %s (%s) stay together, also in a copy', async (name, codecs) => {
    const file = await rig.make(name, `${flashes(1.7)} ${beeps(1.7)} ${codecs}`);
    expectTogether(await lags(file));
    await rig.copy(file, rig.path('copy.mp4'));
    expectTogether(await lags(rig.path('copy.mp4')));
  });

  it('that do not begin together keep their distance', async () => {
    const plain = await rig.make('plain.mkv', `${flashes(2)} ${beeps(2)} -c:v ffv1 -c:a flac`);
    // The picture is cut to begin 0.3 s before the sound, or after it.
    const later = await rig.make(
      'later.mkv',
      `-i ${plain} -itsoffset 0.3 -i ${plain} -map 0:v -map 1:a -c copy`,
    );
    const [first] = await lags(later);
    expect(Math.abs((first ?? 0) - 0.3)).toBeLessThan(FRAME);
    await rig.copy(later, rig.path('later-copy.mp4'));
    expect(Math.abs(((await lags(rig.path('later-copy.mp4')))[0] ?? 0) - 0.3)).toBeLessThan(FRAME);

    const earlier = await rig.make(
      'earlier.mkv',
      `-itsoffset 0.3 -i ${plain} -i ${plain} -map 0:v -map 1:a -c copy`,
    );
    const { info, written } = await rig.copy(earlier, rig.path('earlier-copy.mp4'));
    for (const file of [earlier, rig.path('earlier-copy.mp4')]) {
      expect(Math.abs(((await lags(file))[0] ?? 0) + 0.3)).toBeLessThan(FRAME);
      // No sound is lost, because the first frame is shown from the beginning.
      expect(beepTimes(await rig.samples(file, RATE), RATE)[0]).toBeCloseTo(0.5, 1);
      expect((await rig.frames(file)).slice(0, 3).map(({ ptsUs }) => ptsUs)).toEqual([0, 340_000, 380_000]);
    }
    expect(written.durationMs).toBe(2300);
    expect(info.video?.endUs).toBe(2_300_000);
  });

  it('cut by an edit list begin where it says', async () => {
    const whole = await rig.make('whole.mp4', `${flashes(3)} ${beeps(3)} -g 50 -c:v libx264 -c:a aac`);
    const cut = await rig.make('cut.mp4', `-ss 1.2 -i ${whole} -c copy`);
    const frames = await rig.frames(cut);
    const [flash] = flashTimes(frames);
    expect(Math.abs((flash ?? 0) - 0.3)).toBeLessThan(FRAME);
    expectTogether(await lags(cut));
    await rig.copy(cut, rig.path('cut-copy.mp4'));
    expectTogether(await lags(rig.path('cut-copy.mp4')));
  });
});

describe('the sound of a copy', () => {
  const packets = async (file: string) => {
    const probe = await rig.ffprobe(
      file,
      '-select_streams',
      'a',
      '-show_entries',
      'packet=size,data_hash',
      '-show_data_hash',
      'md5',
    );
    return probe.packets.map(({ data_hash }) => data_hash);
  };
  const copied = async (name: string, codec: string) => {
    const file = await rig.make(
      name,
      `${numberedFrames({ frames: 20 })} ${beeps(0.8)} -c:v libx264 ${codec} -strict experimental`,
    );
    await rig.copy(file, rig.path(`${name}-copy.mp4`));
    return { from: file, to: rig.path(`${name}-copy.mp4`) };
  };

  it.each([
    ['aac.mp4', '-c:a aac'],
    ['mp3.mkv', '-c:a libmp3lame'],
    ['opus.mkv', '-c:a libopus'],
    ['flac.mkv', '-c:a flac'],
  ])('is the original one: %s', async (name, codec) => {
    const { from, to } = await copied(name, codec);
    expect(await packets(to)).toEqual(await packets(from));
  });

  it.each([
    ['vorbis.mkv', '-c:a libvorbis'],
    ['ac3.ts', '-c:a ac3'],
    ['alac.mov', '-c:a alac'],
    ['pcm.mov', '-c:a pcm_s16le'],
    ['pcm-8k.avi', '-c:a pcm_u8 -ar 8000'],
  ])('is AAC where browsers do not play it in MP4: %s', async (name, codec) => {
    const { to } = await copied(name, codec);
    const { streams } = await rig.ffprobe(to, '-show_streams', '-select_streams', 'a');
    expect(streams.map(({ codec_name }) => codec_name)).toEqual(['aac']);
    expect(beepTimes(await rig.samples(to, RATE), RATE)[0]).toBeCloseTo(0.5, 1);
  });

  it('is none where there was none', async () => {
    const file = await rig.make('silent.mp4', `${numberedFrames({ frames: 5 })} -c:v libx264`);
    await rig.copy(file, rig.path('silent-copy.mp4'));
    expect((await rig.ffprobe(rig.path('silent-copy.mp4'), '-show_streams')).streams).toHaveLength(1);
    await expect(rig.samples(file, RATE)).rejects.toMatchObject({ code: 'unsupported_format' });
  });

  it('may be longer than the picture, which alone is counted', async () => {
    const file = await rig.make(
      'long-sound.mp4',
      `${numberedFrames({ frames: 10 })} ${beeps(2)} -c:v libx264 -c:a aac`,
    );
    const { written } = await rig.copy(file, rig.path('long-copy.mp4'));
    expect(written).toMatchObject({ frames: 10, durationMs: 400 });
    expect(beepTimes(await rig.samples(rig.path('long-copy.mp4'), RATE), RATE)).toHaveLength(2);
  });
});

describe('samples', () => {
  it.each([
    ['tone.wav', '-c:a pcm_s16le'],
    ['tone.mp3', '-c:a libmp3lame'],
    ['tone.m4a', '-c:a aac'],
    ['tone.ogg', '-c:a libvorbis'],
    ['tone.flac', '-c:a flac'],
    ['tone.opus', '-c:a libopus'],
    ['tone.aac', '-c:a aac'],
    ['tone.aiff', '-c:a pcm_s16be'],
  ])('of %s have the length and the times of the sound', async (name, codec) => {
    const file = await rig.make(name, `${beeps(1.3, 44_100)} -ac 2 ${codec}`);
    const info = await rig.media.probe(file, 'audio', rig.signal);
    expect(info.audio).toMatchObject({ channels: 2 });
    expect(Math.abs(info.durationSec - 1.3)).toBeLessThan(0.08);
    const samples = await rig.samples(file, RATE);
    expect(Math.abs(samples.length / RATE - 1.3)).toBeLessThan(0.08);
    expect(Math.abs((beepTimes(samples, RATE)[0] ?? 0) - 0.5)).toBeLessThan(FRAME);
    expect(Math.max(...samples)).toBeGreaterThan(0.4);
    expect(Math.max(...samples)).toBeLessThan(0.8);
  });

  it('come in chunks of a second', async () => {
    const file = await rig.make('long.flac', `${beeps(3.25)} -c:a flac`);
    const lengths: number[] = [];
    for await (const chunk of rig.media.decodeAudio(file, { sampleRate: 8_000, signal: rig.signal }))
      lengths.push(chunk.length);
    expect(lengths).toEqual([8_000, 8_000, 8_000, 2_000]);
  });
});
