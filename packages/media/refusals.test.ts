/** @module-tag ffmpeg */
import { mkdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { RenderError } from '@semblance/engine-api/engine';
import { all, beeps, type MediaRig, numberedFrames, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Start of a picture packet in a transport stream. */
const PICTURE = Buffer.from([0, 0, 1, 0xe0]);

let rig: MediaRig;
let clip: string;
beforeAll(async () => {
  rig = await openMediaRig();
  clip = await rig.make(
    'clip.mp4',
    `${numberedFrames({ frames: 50 })} ${beeps(2)} -c:v libx264 -g 10 -c:a aac -movflags +faststart`,
  );
});
afterAll(() => rig.close());

/** Returns the code with which a file is refused, or its number of frames. */
async function fate(path: string, media = rig.media): Promise<string | number> {
  try {
    const info = await media.probe(path, 'video', rig.signal);
    return (await all(media.decodeVideo(path, info, { signal: rig.signal }))).length;
  } catch (error) {
    if (error instanceof RenderError) {
      // The message is a sentence for a person, without ffmpeg's jargon and without internal paths.
      expect(error.message).toMatch(/^[A-Z].*\.$/);
      expect(error.message).not.toContain(rig.dir);
      return error.code;
    }
    throw error;
  }
}
/** A pixel format that each encoder accepts. */
const PIXELS: Readonly<Record<string, string>> = {
  png: 'rgb24',
  bmp: 'bgr24',
  gif: 'rgb8',
  tiff: 'rgb24',
  mjpeg: 'yuvj420p',
  cinepak: 'rgb24',
  flv: 'yuv420p',
};
const text = async (name: string, content: string | Buffer) => {
  await writeFile(rig.path(name), content);
  return rig.path(name);
};

describe('refused as unsupported', () => {
  it.each([
    ['empty.mp4', ''],
    ['text.mp4', 'Not a video at all, just words.\n'.repeat(50)],
    ['page.svg', '<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>'],
    ['list.m3u8', '#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nclip.mp4\n#EXT-X-ENDLIST\n'],
    ['list.mp4', '#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n'],
    ['list.ffconcat', 'ffconcat version 1.0\nfile clip.mp4\n'],
    ['list.txt', "file 'clip.mp4'\n"],
    ['manifest.mpd', '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period/></MPD>'],
    ['subtitles.vtt', 'WEBVTT\n\n00:00.000 --> 00:09.000\nwords\n'],
    ['sdp.mp4', 'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n'],
    ['zeros.mp4', Buffer.alloc(100_000)],
  ])('%s', async (name, content) => expect(await fate(await text(name, content))).toBe('unsupported_format'));

  it.each([
    ['moving.webp', '-c:v libwebp -loop 0 -f webp'],
    ['still.jpg', '-frames:v 1 -f mjpeg'],
    ['clip.flv', '-c:v flv1 -f flv'],
  ])('a file of another kind: %s', async (name, how) => {
    await rig.make('posing.mp4', `${numberedFrames({ frames: 3 })} ${how}`);
    expect(await fate(rig.path('posing.mp4')), name).toBe('unsupported_format');
  });

  it('a codec that is not on the list', async () => {
    const file = await rig.make('snow.avi', `${numberedFrames({ frames: 3 })} -c:v cinepak`);
    expect(await fate(file)).toBe('unsupported_format');
  });

  it.each(['png', 'cinepak', 'flv'])(
    'a picture track of a kind that is only looked at (%s)',
    async (codec) => {
      const file = await rig.make(
        `${codec}.mkv`,
        `${numberedFrames({ frames: 3 })} -c:v ${codec} -pix_fmt ${PIXELS[codec]}`,
      );
      await expect(rig.media.probe(file, 'video', rig.signal)).rejects.toMatchObject({
        code: 'unsupported_format',
        message: expect.stringMatching(
          /^The picture is of a kind that is not accepted \((png|cinepak|flv1)\)/,
        ),
      });
    },
  );

  it.each([
    ['mhm1', ' (mpegh_3d_audio)'],
    ['ac-4', ''],
  ])('sound that cannot be decoded (%s), before any of the picture is made', async (kind, named) => {
    const bytes = await readFile(clip);
    bytes.write(kind, bytes.indexOf('mp4a'), 'latin1');
    bytes.write('free', bytes.indexOf('esds'), 'latin1');
    const file = await text(`${kind}.mp4`, bytes);
    for (const need of ['video', 'audio'] as const)
      await expect(rig.media.probe(file, need, rig.signal)).rejects.toMatchObject({
        code: 'unsupported_format',
        message: `The sound is of a kind that is not accepted${named}. Convert it to AAC, or upload the file without sound.`,
      });
    const two = await rig.make('two.mp4', `-i ${file} -i ${clip} -map 0:0 -map 1:1 -c copy`);
    expect(await fate(two)).toBe(50);
  });

  it('sound alone as a video, and a cover picture beside it; pictures alone as sound', async () => {
    const sound = await rig.make('sound.m4a', `${beeps(1)} -c:a aac`);
    const cover = await rig.make(
      'cover.m4a',
      `-i ${clip} -map 0:a -map 0:v -frames:v 1 -c:a copy -c:v mjpeg -disposition:v attached_pic`,
    );
    for (const file of [sound, cover]) expect(await fate(file)).toBe('unsupported_format');
    const mute = await rig.make('mute.mp4', `-i ${clip} -an -c copy`);
    await expect(rig.media.probe(mute, 'audio', rig.signal)).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });

  it('a download that broke off, and says where', async () => {
    const { length } = await readFile(clip);
    const cut = await rig.make('cut.mp4', `-i ${clip} -c copy -movflags +faststart`);
    await truncate(cut, Math.floor(length * 0.45));
    await expect(rig.media.probe(cut, 'video', rig.signal)).rejects.toThrow(
      /cut off: it says that it is 2\.0 s long/,
    );
    await truncate(cut, 900);
    expect(await fate(cut)).toBe('unsupported_format');
  });

  it.each([
    ['ts', '-c:v libx264 -bf 2 -c:a aac'],
    ['mpg', '-c:v mpeg2video -bf 2 -c:a mp2 -f mpeg'],
  ])('parts put end to end, whose times begin again (%s), and says what to do', async (kind, how) => {
    const part = await readFile(await rig.make(`part.${kind}`, `${numberedFrames({ frames: 25 })} ${how}`));
    const file = await text(`parts.${kind}`, Buffer.concat([part, part]));
    await expect(rig.media.probe(file, 'video', rig.signal)).rejects.toMatchObject({
      code: 'unsupported_format',
      message: expect.stringMatching(
        /^The time stamps of the video begin again .* Convert it to one file.*\.$/,
      ),
    });
  });

  it('sound put end to end, whose times begin again', async () => {
    const part = await readFile(await rig.make('part.ts', `${beeps(2)} -c:a mp2`));
    const file = await text('parts.ts', Buffer.concat([part, part]));
    await expect(rig.media.probe(file, 'audio', rig.signal)).rejects.toThrow(
      'The time stamps of the sound begin again',
    );
  });

  it('a file without its index', async () => {
    const late = await rig.make('late.mp4', `-i ${clip} -c copy`);
    await truncate(late, 3_000);
    expect(await fate(late)).toBe('unsupported_format');
  });

  it('a file of which less than half can be decoded', async () => {
    const bytes = await readFile(clip);
    const from = bytes.indexOf('mdat') + 600;
    bytes.fill(0, from, from + Math.floor((bytes.length - from) * 0.9));
    const damaged = await text('damaged.mp4', bytes);
    expect(await fate(damaged)).toBe('unsupported_format');
  });

  it('ten thousand streams', async () => {
    const bytes = await readFile(clip);
    const file = await text('streams.mp4', repeatTracks(bytes, 10_000));
    expect(await fate(file)).toBe('unsupported_format');
  });
});

describe('refused as too large', () => {
  it('what is longer, has more frames or larger ones than allowed', async () => {
    expect(await fate(clip, rig.withOptions({ limits: { maxDurationSec: 1 } }))).toBe('input_too_large');
    expect(await fate(clip, rig.withOptions({ limits: { maxFrames: 49 } }))).toBe('input_too_large');
    expect(await fate(clip, rig.withOptions({ limits: { maxPixels: 64 * 48 - 1 } }))).toBe('input_too_large');
    expect(
      await fate(clip, rig.withOptions({ limits: { maxDurationSec: 2, maxFrames: 50, maxPixels: 64 * 48 } })),
    ).toBe(50);
  });

  it('an hour, without decoding it', async () => {
    const file = await rig.make('hour.mkv', '-f lavfi -i "color=gray:s=16x16:r=1:d=3600" -c:v ffv1');
    expect(await fate(file)).toBe('input_too_large');
  });

  it('a picture bomb: few bytes, many pixels', async () => {
    const file = await rig.make('bomb.mkv', '-f lavfi -i "color=gray:s=8000x8000:r=1:d=1" -c:v mjpeg');
    expect(await fate(file)).toBe('input_too_large');
  });

  it('frames that turn out larger than the header says', async () => {
    const large = await readFile(
      await rig.make('large.m2v', '-f lavfi -i "color=gray:s=1280x720:r=25:d=0.2" -c:v mpeg2video'),
    );
    const small = await readFile(
      await rig.make('small.m2v', '-f lavfi -i "color=gray:s=64x48:r=25:d=0.2" -c:v mpeg2video'),
    );
    const file = await text('grows.m2v', Buffer.concat([small, large]));
    const limited = rig.withOptions({ limits: { maxPixels: 64 * 48 } });
    expect(await fate(file, limited)).toBe('input_too_large');
    // When the growth is allowed, frames have the size at the start of the file. This codec loses one when the size
    // changes.
    expect(await fate(file)).toBe(9);
  });
});

describe('taken', () => {
  it('a file with subtitles, data, an attachment and a second picture track', async () => {
    await text('words.srt', '1\n00:00:00,000 --> 00:00:01,000\nwords\n');
    await text('font.ttf', 'not really');
    const file = await rig.make(
      'many.mkv',
      `-i ${clip} -i ${rig.path('words.srt')} ${numberedFrames({ frames: 5, size: '128x96' })} -map 0:v -map 0:a -map 1 -map 2 ` +
        `-attach ${rig.path('font.ttf')} -metadata:s:t mimetype=application/x-truetype-font -c:v mpeg4 -c:a copy -c:s srt`,
    );
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info.video).toMatchObject({ width: 64, height: 48, frameCount: 50 });
    expect(await fate(file)).toBe(50);
  });

  it.each(['png', 'bmp', 'gif', 'tiff', 'mjpeg'])(
    'sound and video with a cover picture (%s)',
    async (kind) => {
      const picture = `${numberedFrames({ frames: 1 })} -c:v ${kind} -pix_fmt ${PIXELS[kind]}`;
      const attached = '-disposition:v:0 attached_pic';
      const song = `${beeps(1)} ${picture} -map 1:v -map 0:a`;
      const files = [await rig.make(`${kind}.mp3`, `${song} ${attached} -c:a libmp3lame`)];
      // ffmpeg does not write these two kinds into FLAC.
      if (!['bmp', 'gif'].includes(kind))
        files.push(await rig.make(`${kind}.flac`, `${song} ${attached} -c:a flac`));
      // Players know these kinds as covers in MP4.
      if (['png', 'bmp', 'mjpeg'].includes(kind))
        files.push(await rig.make(`${kind}.m4a`, `${song} ${attached} -c:a aac -f ipod`));
      for (const file of files) {
        const info = await rig.media.probe(file, 'audio', rig.signal);
        expect(info.durationSec).toBeCloseTo(1, 1);
        expect((await rig.samples(file, 16_000)).length).toBeGreaterThan(15_000);
        expect(await fate(file)).toBe('unsupported_format');
      }
      if (!['png', 'bmp', 'mjpeg'].includes(kind)) return;
      const video = await rig.make(
        `${kind}.mp4`,
        `-i ${clip} ${picture.replace('-c:v', '-c:v:1').replace('-pix_fmt', '-pix_fmt:v:1')} ` +
          '-map 0:v -map 0:a -map 1:v -c:v:0 copy -c:a copy -disposition:v:1 attached_pic',
      );
      expect(await fate(video)).toBe(50);
    },
  );

  it('a video with a picture in an attachment', async () => {
    const cover = await rig.make('cover.png', `${numberedFrames({ frames: 1 })} -c:v png`);
    const file = await rig.make(
      'attached.mkv',
      `-i ${clip} -attach ${cover} -metadata:s:t mimetype=image/png -c copy`,
    );
    expect(await fate(file)).toBe(50);
  });

  it.each([
    ['flv', ''],
    ['jpeg2000', ''],
    ['wmav1', beeps(2)],
  ])('a video whose second track is of a kind that is not (%s)', async (kind, sound) => {
    const second = sound || numberedFrames({ frames: 50 });
    const file = await rig.make(
      `second-${kind}.mkv`,
      `-i ${clip} ${second} -map 0 -map 1 -c copy ${sound ? '-c:a:1' : '-c:v:1'} ${kind}`,
    );
    expect(await fate(file)).toBe(50);
  });

  it.each([
    ['B-frames at one frame a second', 'slow.ts', '-c:v libx264 -bf 16 -b_strategy 0', '1'],
    ['B-frames in AVI, where only decoding has times', 'b.avi', '-c:v mpeg4 -bf 2', '2'],
    ['open groups of pictures', 'open.mkv', '-c:v libx264 -x264-params open-gop=1:bframes=5:keyint=10', '5'],
    [
      'times that pass 2^33 soon after the beginning',
      'w.ts',
      '-c:v libx264 -bf 2 -output_ts_offset 95440',
      '5',
    ],
    ['times that pass 2^33 later', 'wrap.ts', '-c:v libx264 -bf 2 -output_ts_offset 95360', '1'],
  ])('%s, whole', async (_title, name, how, rate) => {
    const frames = rate === '1' ? 120 : 30;
    const file = await rig.make(name, `${numberedFrames({ frames, rate })} ${how}`);
    const { durationSec } = await rig.media.probe(file, 'video', rig.signal);
    expect(durationSec).toBeCloseTo(frames / Number(rate), 1);
    expect(await fate(file)).toBe(frames);
  });

  it('a beginning cut off by an edit list', async () => {
    const file = await rig.make('edited.mp4', `-ss 0.7 -i ${clip} -c copy`);
    const { video } = await rig.media.probe(file, 'video', rig.signal);
    expect(await fate(file)).toBe(video?.frameCount);
  });

  it('one packet whose time is damaged', async () => {
    const bytes = await readFile(
      await rig.make('whole.ts', `${numberedFrames({ frames: 50 })} -c:v mpeg2video`),
    );
    const starts: number[] = [];
    for (let at = bytes.indexOf(PICTURE); at >= 0; at = bytes.indexOf(PICTURE, at + 1)) starts.push(at);
    // Both time stamps of one packet in the middle lose the same 15 bits.
    for (const group of [10, 15]) bytes.writeUInt16BE(1, (starts[30] as number) + group);
    const file = await text('damaged.ts', bytes);
    expect(await fate(file)).toBe(50);
  });

  it.each(['-y.mp4', 'http:clip.mp4', 'concat:a|b.mp4', 'a b\'"$(x)%d.mp4', 'ümlaut 🎬.mp4', 'file:x.mp4'])(
    'whatever its name is: %s',
    async (name) => {
      await mkdir(rig.path('names'), { recursive: true });
      await writeFile(rig.path(`names/${name}`), await readFile(clip));
      const info = await rig.media.probe(rig.path(`names/${name}`), 'video', rig.signal);
      expect(info.video?.frameCount).toBe(50);
    },
  );
});

/** Returns an MP4 that lists its picture track `count` times. */
function repeatTracks(file: Buffer, count: number): Buffer {
  const moov = file.indexOf('moov') - 4;
  const moovSize = file.readUInt32BE(moov);
  const trak = file.indexOf('trak', moov) - 4;
  const track = file.subarray(trak, trak + file.readUInt32BE(trak));
  const content = Buffer.concat([
    file.subarray(moov + 8, trak),
    ...Array.from({ length: count }, () => track),
  ]);
  const head = Buffer.alloc(8);
  head.writeUInt32BE(content.length + 8);
  head.write('moov', 4, 'latin1');
  return Buffer.concat([file.subarray(0, moov), head, content, file.subarray(moov + moovSize)]);
}
