import { RenderError } from '@semblance/engine-api/engine';
import { needsMatrixChange } from './color.ts';
import { unfinished } from './failure.ts';
import { inputArgs, maxPixelsArgs } from './formats.ts';
import { unsupported } from './headers.ts';
import type { Kit } from './kit.ts';
import { readNut } from './nut-reader.ts';
import { prefetch } from './prefetch.ts';
import type { Probed, VideoDetails } from './probe.ts';
import type { DecodeOptions, Sampling, Size, VideoFrame, VideoInfo } from './types.ts';

/** Offset of all times in the pipe, in microseconds, because none may be negative there. */
const PIPE_OFFSET_US = 1_000_000_000;
/** Least distance of two frames to which a file gives the same time, in microseconds. */
const LEAST_DISTANCE_US = 1_000;
/** Decoded share of the packets below which a file counts as damaged and not as rendered with a few faults. */
const LEAST_SHARE = 0.45;
/** Frames decoded ahead of the reader, so that decoding and working overlap. */
const AHEAD = 2;

/**
 * Yields the frames of a probed video, upright, square and 8-bit 4:2:0, with their own times.
 * @throws RenderError
 */
export async function* decodeVideo(
  kit: Kit,
  path: string,
  probed: Probed,
  options: DecodeOptions,
): AsyncGenerator<VideoFrame> {
  const { info, video } = probed;
  if (!video || !info.video) throw unsupported('The video has no picture track that can be decoded.');
  const { signal, sample } = options;
  const size = options.size ?? { width: info.video.width, height: info.video.height };
  if (size.width % 2 || size.height % 2) throw new RangeError('frames have even sides');
  // A video without times is decoded from its start, because its frames are counted.
  const seekUs = options.fromUs === undefined || video.untimed ? 0 : video.zeroUs + options.fromUs;
  const seeks = seekUs > 0;
  const args = [
    ...['-hide_banner', '-nostdin', '-loglevel', 'error', '-max_error_rate', '1'],
    ...['-threads', String(kit.threads), ...maxPixelsArgs(kit.limits.maxPixels)],
    ...(sample?.keyFrames ? ['-skip_frame', 'nokey'] : []),
    ...['-copyts', '-noautorotate', ...seekArgs(seekUs), ...inputArgs(path), '-map', `0:${video.stream}`],
    ...['-map_metadata', '-1', '-map_chapters', '-1'],
    ...['-vf', sampleFilter(sample) + filters(kit, video, info.video, size)],
    ...['-fps_mode', 'passthrough', '-enc_time_base', '1:1000000', '-c:v', 'rawvideo', '-pix_fmt', 'yuv420p'],
    ...['-f', 'nut', '-write_index', '0', 'pipe:1'],
  ];
  await using tool = await kit.start('ffmpeg', args, {
    signal,
    read: [path],
    limits: { cpuSec: decodeCpuSec(info.durationSec) },
  });
  const bytes = (size.width * size.height * 3) / 2;
  let index = 0;
  let last = Number.NEGATIVE_INFINITY;
  let offsetUs = PIPE_OFFSET_US;
  const { memory } = options;
  const room = memory && ((size: number) => memory.take(size));
  for await (const frame of prefetch(readNut(kit.patient(tool, tool.stdout), bytes, room), AHEAD)) {
    if (index === 0 && video.untimed) offsetUs = frame.ptsUs;
    // The first frame is shown from the beginning, because content before it could not be decoded, or was only
    // sound.
    const ptsUs =
      index === 0 && !seeks && !sample ? 0 : Math.max(frame.ptsUs - offsetUs, last + LEAST_DISTANCE_US);
    if (ptsUs > kit.limits.maxDurationSec * 1e6 || index >= kit.limits.maxFrames) {
      throw new RenderError(
        'input_too_large',
        'The video goes on for longer than it says, and longer than is taken.',
      );
    }
    yield { index, ptsUs, ...size, data: frame.data };
    last = ptsUs;
    index++;
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  const failure = unfinished(exit, 'The video');
  if (failure) throw failure;
  if (seeks || sample) return;
  if (index === 0) throw unsupported('No picture of the video can be decoded: it is damaged.', exit.stderr);
  // The share is below a half, because a packet may contain one field of a frame.
  if (index < info.video.frameCount * LEAST_SHARE) {
    throw unsupported(
      `The video is damaged: only ${index} of ${info.video.frameCount} frames can be decoded.`,
      exit.stderr,
    );
  }
}

/** The first filter of a sample: all others work on what it lets through. */
function sampleFilter(sample: Sampling | undefined): string {
  if (!sample) return '';
  const apart = (sample.apartUs / 1e6).toFixed(6);
  return `select=isnan(prev_selected_t)+gte(t-prev_selected_t\\,${apart}),`;
}

/** Seeks to a time of the file or to a key frame before it, and decodes all frames from there. */
const seekArgs = (seekUs: number) =>
  seekUs > 0 ? ['-noaccurate_seek', '-seek_timestamp', '1', '-ss', (seekUs / 1e6).toFixed(6)] : [];

/**
 * CPU limit in seconds, far above the need of any honest file: 4K with tone mapping on a busy core takes about 30 s
 * per second.
 */
const decodeCpuSec = (durationSec: number) => Math.ceil(120 + 60 * durationSec);

function filters(kit: Kit, video: VideoDetails, info: VideoInfo, size: Size): string {
  const { color } = info;
  const stored = video.quarterTurns % 2 ? { width: size.height, height: size.width } : size;
  const scaleTo = `w=${stored.width}:h=${stored.height}`;
  const chain: string[] = [];
  if (video.seeThrough) chain.push(...overWhite());
  if (video.interlaced) chain.push('bwdif=mode=send_frame:deint=interlaced');
  if (video.hdr && kit.tools.toneMapping) chain.push(...toneMap(video, scaleTo));
  else if (
    needsMatrixChange(video.storedColor.space) &&
    video.storedColor.space !== 'gbr' &&
    kit.tools.toneMapping
  ) {
    chain.push(`zscale=${scaleTo}:min=${video.storedColor.space}:m=bt709:f=bicubic`, 'format=yuv420p');
  } else {
    const { range } = video.storedColor;
    const matrix = isRgb(video)
      ? 'out_color_matrix=bt709:out_range=tv'
      : `in_range=${range}:out_range=${range}`;
    chain.push(`scale=${scaleTo}:flags=bicubic+accurate_rnd+full_chroma_int:${matrix}`, 'format=yuv420p');
  }
  if (video.mirrored) chain.push('hflip');
  if (video.quarterTurns === 1) chain.push('transpose=clock');
  if (video.quarterTurns === 2) chain.push('hflip', 'vflip');
  if (video.quarterTurns === 3) chain.push('transpose=cclock');
  chain.push(
    'setsar=1',
    `setparams=range=${color.range}:colorspace=${color.space}`,
    'settb=1/1000000',
    `setpts=max(PTS+${PIPE_OFFSET_US - video.zeroUs}\\,0)`,
  );
  return chain.join(',');
}

/**
 * Converts high dynamic range to standard by the Hable curve, at the wanted size, because a smaller size is
 * cheaper.
 */
function toneMap(video: VideoDetails, scaleTo: string): string[] {
  const { transfer, primaries, space } = video.storedColor;
  const known = (value: string, otherwise: string) => (value === 'unknown' ? otherwise : value);
  return [
    `zscale=${scaleTo}:f=bicubic:tin=${transfer}:pin=${known(primaries, 'bt2020')}:min=${known(space, 'bt2020nc')}:t=linear:npl=100`,
    'format=gbrpf32le',
    'zscale=p=bt709',
    'tonemap=tonemap=hable:desat=0',
    'zscale=t=bt709:m=bt709:r=tv',
    'format=yuv420p',
  ];
}

/** Shows white behind transparent pixels, which may still have the colours that the owner erased. */
const overWhite = () => [
  'format=rgba',
  'split[picture][behind];[behind]format=rgb24,drawbox=color=white:thickness=fill[white];' +
    '[white][picture]overlay=format=rgb',
];

const isRgb = ({ pixelFormat, storedColor }: VideoDetails) =>
  storedColor.space === 'gbr' || /^(gbr|rgb|bgr|argb|abgr|0rgb|pal8)/.test(pixelFormat);
