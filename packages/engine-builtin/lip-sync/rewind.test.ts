/** @module-tag ffmpeg */
import { crc32 } from 'node:zlib';
import { RenderError } from '@semblance/engine-api/engine';
import type { VideoFrame } from '@semblance/media/types';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bounce } from './bounce.ts';
import type { Decode } from './rewind.ts';

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

const FRAMES = 300;
/** A tenth of the video. */
const HELD = 30;
/** All frames differ. */
const moving = `-f lavfi -i "testsrc2=s=96x64:r=25,trim=end_frame=${FRAMES}"`;

/** Plays a video forth and back. Returns the shown frames and what was decoded for them. */
async function play(decode: Decode, held: number, endUs: number) {
  let decoded = 0;
  const counted: Decode = async function* (fromUs) {
    for await (const frame of decode(fromUs)) {
      decoded++;
      yield frame;
    }
  };
  const shown: string[] = [];
  const untilUs = 2.5 * endUs;
  for await (const { frame, startUs } of bounce({ decode: counted, untilUs, frameUs: 40_000, endUs, held }))
    shown.push(`${startUs} ${crc32(frame.data)}`);
  return { shown, decoded };
}

async function playFile(file: string) {
  const info = await rig.media.probe(file, 'video', rig.signal);
  const decode: Decode = (fromUs) => rig.media.decodeVideo(file, info, { signal: rig.signal, fromUs });
  const whole = await play(decode, 10_000, info.video.endUs);
  const parts = await play(decode, HELD, info.video.endUs);
  expect(parts.shown).toEqual(whole.shown);
  return parts;
}

// Forth, back and half of the way forth again are 750 frames. With each of ten parts decoded from the first frame,
// about two thousand are decoded.
describe('a video that is played backwards in parts', { timeout: 60_000 }, () => {
  it.each([
    ['plain.mp4', '-c:v libx264 -bf 0 -g 25'],
    ['b.mp4', '-c:v libx264 -bf 3 -g 25'],
    ['open.mkv', '-c:v libx264 -x264-params open-gop=1:bframes=5:keyint=25'],
    ['late.mp4', '-c:v libx264 -bf 2 -g 25 -output_ts_offset 7.3'],
    ['hevc.mp4', '-c:v libx265 -x265-params log-level=error:keyint=25'],
    ['vp9.webm', '-c:v libvpx-vp9 -b:v 300k -g 25 -deadline realtime -cpu-used 8'],
    [
      'vfr.mkv',
      '-vf "setpts=(N+floor(N/4)*3)/25/TB" -fps_mode passthrough -enc_time_base 1:1000 -c:v libx264 -g 25',
    ],
    ['fields.mkv', '-vf setfield=tff -c:v mpeg2video -flags +ildct+ilme -g 25'],
  ])('is not decoded from its beginning for each (%s)', async (name, how) => {
    const { shown, decoded } = await playFile(await rig.make(name, `${moving} ${how}`));
    expect(shown.length).toBeGreaterThan(700);
    expect(decoded).toBeLessThan(FRAMES * 5);
  });

  it('nor where an edit list cuts off its beginning', async () => {
    const whole = await rig.make('whole.mp4', `${moving} -c:v libx264 -bf 2 -g 25`);
    const { decoded } = await playFile(await rig.make('cut.mp4', `-ss 0.7 -i ${whole} -c copy`));
    expect(decoded).toBeLessThan(FRAMES * 5);
  });

  // A file without seek points, or with ones that do not stand alone, is decoded as often as needed.
  it.each([
    ['refresh.mp4', '-c:v libx264 -x264-params intra-refresh=1:keyint=25'],
    ['fields.ts', '-vf setfield=tff -c:v mpeg2video -flags +ildct+ilme -g 25'],
    ['stream.ts', '-c:v libx264 -bf 2 -g 25 -output_ts_offset 3000'],
    ['untimed.avi', '-c:v mpeg4 -bf 2 -g 25'],
    ['bare.m2v', '-c:v mpeg2video -g 25'],
    ['once.mp4', '-c:v libx264 -g 1000 -sc_threshold 0'],
  ])('shows the very same frames (%s)', async (name, how) => {
    await playFile(await rig.make(name, `${moving} ${how}`));
  });
});

describe('a decoder that is entered in the middle', () => {
  const FRAME = { width: 2, height: 2 };
  const frame = (index: number, from = 0): VideoFrame => ({
    ...FRAME,
    index: index - from,
    ptsUs: index * 1e6,
    data: new Uint8Array(6).fill(index),
  });
  const asked: (number | undefined)[] = [];
  const playWith = async (enter: (from: number) => Iterable<VideoFrame>) => {
    asked.length = 0;
    const decode: Decode = async function* (fromUs) {
      asked.push(fromUs);
      if (fromUs === undefined) for (let i = 0; i < 100; i++) yield frame(i);
      else yield* enter(Math.floor(fromUs / 1e6));
    };
    const { shown } = await play(decode, 10, 100e6);
    const whole = await play(decode, 1_000, 100e6);
    expect(shown).toEqual(whole.shown);
  };
  const from = function* (first: number) {
    for (let i = first; i < 100; i++) yield frame(i, first);
  };

  it('is believed where it gives what was there before', async () => {
    await playWith(from);
    expect(asked.filter((us) => us === undefined).length).toBeLessThan(7);
  });

  it('is asked for more of what comes before where frames look otherwise, come too late, or not at all', async () => {
    for (const enter of [
      // Two frames after its beginning are damaged.
      function* (first: number) {
        for (const one of from(first)) {
          if (one.index < 2) one.data.fill(200);
          yield one;
        }
      },
      (first: number) => from(first + 2),
    ]) {
      await playWith(enter);
      expect(asked.filter((us) => us === undefined).length).toBeLessThan(7);
    }
    for (const enter of [
      () => [],
      function* (first: number): Generator<VideoFrame> {
        yield frame(first);
        throw new RenderError('unsupported_format', 'Nothing can be decoded.');
      },
    ]) {
      await playWith(enter);
      // Each way is tried once and not again.
      expect(asked.filter((us) => us !== undefined)).toHaveLength(3);
    }
  });

  it('passes on what is no fault of the video', async () => {
    const gone = playWith(() => {
      throw new TypeError('gone');
    });
    await expect(gone).rejects.toThrow('gone');
  });
});
