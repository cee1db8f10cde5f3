/** @module-tag ffmpeg */
import { readFile, writeFile } from 'node:fs/promises';
import { type MediaRig, numberedFrames, numberOf, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

const times = async (file: string) => {
  const { packets } = await rig.ffprobe(file, '-select_streams', 'v', '-show_entries', 'packet=pts_time');
  const all = packets.map(({ pts_time }) => Number(pts_time)).sort((a, b) => a - b);
  return all.map((time) => Math.round((time - (all[0] as number)) * 1e6));
};

describe('frames', () => {
  it('come all, in order, with their times', async () => {
    const file = await rig.make(
      'plain.mp4',
      `${numberedFrames({ frames: 30, rate: '30000/1001' })} -c:v libx264 -qp 5`,
    );
    const frames = await rig.frames(file);
    expect(frames.map(numberOf)).toEqual(Array.from({ length: 30 }, (_, i) => i));
    expect(frames.map(({ ptsUs }) => ptsUs)).toEqual(frames.map((_, i) => Math.round((i * 1_001_000) / 30)));
    expect(frames.map(({ index }) => index)).toEqual(frames.map((_, i) => i));
    expect(frames[0]?.data.length).toBe((64 * 48 * 3) / 2);
  });

  it('of a variable rate keep their times, through a copy too', async () => {
    const file = await rig.make(
      'vfr.mkv',
      `${numberedFrames({ frames: 24 })} -vf "setpts=(N+floor(N/4)*3+mod(N\\,3)*0.4)/25/TB" -fps_mode passthrough ` +
        '-enc_time_base 1:1000 -c:v libx264 -qp 5',
    );
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info.video).toMatchObject({ variableRate: true, frameCount: 24 });
    const frames = await rig.frames(file);
    expect(frames.map(({ ptsUs }) => ptsUs)).toEqual(await times(file));
    const { written } = await rig.copy(file, rig.path('vfr-copy.mp4'));
    const copied = await rig.frames(rig.path('vfr-copy.mp4'));
    expect(copied.map(({ ptsUs }) => ptsUs)).toEqual(frames.map(({ ptsUs }) => ptsUs));
    expect(copied.map(numberOf)).toEqual(frames.map(numberOf));
    expect(written.durationMs).toBe(Math.round((info.video?.endUs ?? 0) / 1000));
  });

  it.each([
    ['mov', '-c:v prores_ks -pix_fmt yuv422p10le'],
    ['webm', '-c:v libvpx -b:v 1M'],
    ['webm', '-c:v libvpx-vp9 -b:v 1M -pix_fmt yuv444p'],
    ['mkv', '-c:v ffv1 -pix_fmt yuv420p10le'],
    ['avi', '-c:v mpeg4 -q:v 2 -bf 2'],
    ['ts', '-c:v libx264 -qp 5'],
    ['mpg', '-c:v mpeg2video -q:v 2 -sc_threshold 1000000000'],
    ['m2v', '-c:v mpeg2video -q:v 2'],
    ['ogv', '-c:v libtheora -q:v 9'],
    ['3gp', '-c:v libx264 -qp 5'],
    ['mp4', '-c:v libx265 -pix_fmt yuv420p10le -x265-params log-level=error'],
  ])('of .%s (%s) come all', async (extension, codec) => {
    const name = `${codec.split(' ')[1]}.${extension}`;
    const file = await rig.make(name, `${numberedFrames({ frames: 20 })} ${codec} -strict experimental`);
    const frames = await rig.frames(file);
    expect(frames.map(numberOf)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    for (const [i, { ptsUs }] of frames.entries())
      expect(Math.abs(ptsUs - i * 40_000)).toBeLessThanOrEqual(1_000);
  });

  it('stay the same ones when the file is copied to MP4', async () => {
    const { written } = await rig.copy(rig.path('plain.mp4'), rig.path('copy.mp4'));
    expect(written).toMatchObject({ frames: 30, durationMs: 1001 });
    const frames = await rig.frames(rig.path('copy.mp4'));
    expect(frames.map(numberOf)).toEqual(Array.from({ length: 30 }, (_, i) => i));
    const { streams } = await rig.ffprobe(rig.path('copy.mp4'), '-show_streams');
    expect(streams[0]).toMatchObject({
      codec_name: 'h264',
      pix_fmt: 'yuv420p',
      avg_frame_rate: '30000/1001',
    });
    expect(Number(streams[0]?.level)).toBeLessThanOrEqual(10);
  });

  it('are scaled on request', async () => {
    const [frame] = await rig.frames(rig.path('plain.mp4'), { width: 32, height: 24 });
    expect(frame).toMatchObject({ width: 32, height: 24 });
    expect(frame?.data.length).toBe((32 * 24 * 3) / 2);
  });

  it('of odd sides are one pixel smaller', async () => {
    const file = await rig.make(
      'odd.mkv',
      `${numberedFrames({ frames: 2, size: '63x47' })} -c:v ffv1 -pix_fmt yuv444p`,
    );
    expect((await rig.frames(file))[1]).toMatchObject({ width: 62, height: 46, index: 1 });
  });

  it('with the same time twice stay in order', async () => {
    const file = await rig.make(
      'twice.nut',
      `${numberedFrames({ frames: 6 })} -vf "setpts=floor(N/2)*2/25/TB" -fps_mode passthrough -enc_time_base 1:1000 -c:v rawvideo`,
    );
    const mkv = await rig.make('twice.mkv', `-copyts -i ${file} -c copy`);
    const frames = await rig.frames(mkv);
    expect(frames.map(numberOf)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(frames.map(({ ptsUs }) => ptsUs)).toEqual([0, 1_000, 80_000, 81_000, 160_000, 161_000]);
  });
});

describe('a picture', () => {
  /** A picture that is white in the upper left quarter of what a player shows. */
  const corner = '-f lavfi -i "color=black:s=96x64:r=25:d=0.2,drawbox=w=48:h=32:color=white:t=fill"';
  const quarters = ({ width, height, data }: { width: number; height: number; data: Uint8Array }) =>
    [0.25, 0.75]
      .flatMap((y) =>
        [0.25, 0.75].map((x) => data[Math.floor(y * height) * width + Math.floor(x * width)] as number),
      )
      .map((luma) => (luma > 128 ? 1 : 0))
      .join('');

  // Each row has the first two rows of the matrix (ISO 14496-12, 8.3.2), the shown size of 96 × 64, and the
  // position of the white quarter.
  it.each([
    ['as it is', [1, 0, 0, 1], '96x64', '1000'],
    ['turned right', [0, 1, -1, 0], '64x96', '0100'],
    ['upside down', [-1, 0, 0, -1], '96x64', '0001'],
    ['turned left', [0, -1, 1, 0], '64x96', '0010'],
    ['mirrored', [-1, 0, 0, 1], '96x64', '0100'],
    ['mirrored and upside down', [1, 0, 0, -1], '96x64', '0010'],
    ['mirrored and turned left', [0, 1, 1, 0], '64x96', '1000'],
    ['mirrored and turned right', [0, -1, -1, 0], '64x96', '0001'],
  ] as const)('to be shown %s stands upright', async (_how, [a, b, c, d], size, expected) => {
    const file = await rig.make('corner.mp4', `${corner} -c:v libx264`);
    const bytes = await readFile(file);
    // The matrix follows size, type, version, times, track, duration, layer and volume in the track header.
    const matrix = bytes.indexOf('tkhd') + 4 + 40;
    for (const [i, value] of [a, b, 0, c, d, 0].entries()) bytes.writeInt32BE(value * 65_536, matrix + 4 * i);
    await writeFile(file, bytes);
    const [frame] = await rig.frames(file);
    expect(frame && `${frame.width}x${frame.height}`).toBe(size);
    expect(frame && quarters(frame)).toBe(expected);
  });

  it('of pixels that are not square gets square ones', async () => {
    const file = await rig.make(
      'wide.mp4',
      `${numberedFrames({ frames: 2, size: '64x48' })} -vf setsar=4/3 -c:v libx264`,
    );
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info.video).toMatchObject({ width: 84, height: 48 });
    expect((await rig.frames(file))[0]).toMatchObject({ width: 84, height: 48 });
  });

  it('that is interlaced is made progressive', async () => {
    const moving = '-f lavfi -i "testsrc2=s=128x96:r=50:d=0.4"';
    const file = await rig.make(
      'fields.mpg',
      `${moving} -vf "tinterlace=interleave_top,fieldorder=tff" -c:v mpeg2video -q:v 2 -flags +ildct+ilme`,
    );
    expect((await rig.ffprobe(file, '-show_streams')).streams[0]?.field_order).toBe('tt');
    /** Returns the mean difference of rows from their neighbours, which is large for combing. */
    const combing = ({ width, height, data }: { width: number; height: number; data: Uint8Array }) => {
      let sum = 0;
      for (let i = width; i < width * (height - 1); i++) {
        sum += Math.abs(
          (data[i] as number) - ((data[i - width] as number) + (data[i + width] as number)) / 2,
        );
      }
      return sum / (width * height);
    };
    const frames = await rig.frames(file);
    expect(frames).toHaveLength(10);
    const woven = await rig.make('woven.mkv', `-i ${file} -vf setfield=prog -c:v ffv1 -pix_fmt yuv420p`);
    const combed = await rig.frames(woven);
    const mean = (all: typeof frames) => all.reduce((sum, frame) => sum + combing(frame), 0) / all.length;
    expect(mean(frames)).toBeLessThan(mean(combed) * 0.8);
  });
});

describe('colours', () => {
  const tagged = (range: string, space: string, primaries: string, transfer: string) =>
    `-vf "setparams=range=${range}:colorspace=${space}:color_primaries=${primaries}:color_trc=${transfer}" -c:v libx264 -qp 5`;

  it.each([
    ['tv', 'bt709', 'bt709', 'bt709'],
    ['pc', 'smpte170m', 'smpte170m', 'smpte170m'],
    ['tv', 'bt470bg', 'bt470bg', 'bt470bg'],
    ['tv', 'bt2020nc', 'bt2020', 'bt2020-10'],
  ])('%s %s %s %s keep their tags and numbers', async (range, space, primaries, transfer) => {
    const file = await rig.make(
      `${range}-${space}.mp4`,
      `${numberedFrames({ frames: 3 })} ${tagged(range, space, primaries, transfer)}`,
    );
    const { info } = await rig.copy(file, rig.path('tags.mp4'));
    expect(info.video?.color).toEqual({ range, space, primaries, transfer });
    expect((await rig.frames(file)).map(numberOf)).toEqual([0, 1, 2]);
    const { streams } = await rig.ffprobe(rig.path('tags.mp4'), '-show_streams');
    expect(streams[0]).toMatchObject({
      color_range: range,
      color_space: space,
      color_primaries: primaries,
      color_transfer: transfer,
    });
    expect((await rig.frames(rig.path('tags.mp4'))).map(numberOf)).toEqual([0, 1, 2]);
  });

  it('that a file leaves open are what players take', async () => {
    const small = await rig.make('small.mp4', `${numberedFrames({ frames: 1 })} -c:v libx264`);
    const large = await rig.make('large.mp4', '-f lavfi -i "color=gray:s=1280x720:r=25:d=0.04" -c:v libx264');
    expect((await rig.media.probe(small, 'video', rig.signal)).video?.color.space).toBe('smpte170m');
    expect((await rig.media.probe(large, 'video', rig.signal)).video?.color.space).toBe('bt709');
  });

  it('stored as RGB become BT.709', async () => {
    const file = await rig.make(
      'rgb.mkv',
      '-f lavfi -i "color=red:s=64x48:r=25:d=0.08" -c:v ffv1 -pix_fmt bgr0',
    );
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info.video?.color).toMatchObject({ space: 'bt709', range: 'tv' });
    const [frame] = await rig.frames(file);
    const [y, u, v] = [frame?.data[0], frame?.data[64 * 48], frame?.data[64 * 48 * 1.25]];
    expect([y, u, v].map((value, i) => Math.abs((value ?? 0) - ([63, 102, 240][i] as number)) <= 2)).toEqual([
      true,
      true,
      true,
    ]);
  });

  it.each(['smpte2084', 'arib-std-b67'])(
    'of high dynamic range (%s) are brought to the standard one',
    async (transfer) => {
      const file = await rig.make(
        `${transfer}.mp4`,
        `${numberedFrames({ frames: 2 })} -vf "format=yuv420p10,setparams=range=tv:colorspace=bt2020nc:color_primaries=bt2020:color_trc=${transfer}" ` +
          '-c:v libx265 -x265-params log-level=error',
      );
      const info = await rig.media.probe(file, 'video', rig.signal);
      const standard = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };
      const kept = { range: 'tv', space: 'bt2020nc', primaries: 'bt2020', transfer };
      expect(info.video?.color).toEqual(rig.tools.toneMapping ? standard : kept);
      const without = rig.withOptions({ tools: { ...rig.tools, toneMapping: false } });
      expect((await without.probe(file, 'video', rig.signal)).video?.color).toEqual(kept);
      expect(await rig.frames(file)).toHaveLength(2);
    },
  );
});
