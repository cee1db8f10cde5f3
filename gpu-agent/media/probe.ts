import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { RenderError } from '../engines/engine.ts';
import { isResolvable, resolveColor } from './color.ts';
import { inputArgs } from './formats.ts';
import type { Kit } from './kit.ts';
import { uprightSize } from './size.ts';
import type { AudioInfo, ColorTags, MediaInfo, Size } from './types.ts';

/** What decoding needs to know beyond what engines are told. */
export interface VideoDetails {
  readonly stream: number;
  /** Microseconds in the file's own time at which the output's time begins. */
  readonly zeroUs: number;
  /** The file does not say when each frame is shown; the first one that is decoded is the beginning. */
  readonly untimed: boolean;
  readonly quarterTurns: 0 | 1 | 2 | 3;
  readonly mirrored: boolean;
  /** As stored, before it is turned and made square. */
  readonly coded: Size;
  readonly interlaced: boolean;
  /** Colours as stored. */
  readonly storedColor: ColorTags;
  readonly pixelFormat: string;
  /** High dynamic range: PQ or HLG. */
  readonly hdr: boolean;
}

export interface AudioDetails {
  readonly stream: number;
  /** Microseconds in the file's own time. */
  readonly startUs: number;
}

export interface Probed {
  readonly info: MediaInfo;
  readonly video?: VideoDetails;
  readonly audio?: AudioDetails;
}

interface RawStream {
  index: number;
  codec_type?: string;
  codec_name?: string;
  width?: number;
  height?: number;
  pix_fmt?: string;
  sample_aspect_ratio?: string;
  avg_frame_rate?: string;
  r_frame_rate?: string;
  time_base?: string;
  start_time?: string;
  duration?: string;
  nb_frames?: string;
  field_order?: string;
  color_range?: string;
  color_space?: string;
  color_transfer?: string;
  color_primaries?: string;
  sample_rate?: string;
  channels?: number;
  disposition?: { attached_pic?: number; default?: number };
  side_data_list?: { side_data_type?: string; displaymatrix?: string }[];
}

interface RawProbe {
  streams?: RawStream[];
  format?: { format_name?: string; duration?: string; start_time?: string };
}

const ENTRIES = [
  'format=format_name,duration,start_time',
  'stream=index,codec_type,codec_name,width,height,pix_fmt,sample_aspect_ratio,avg_frame_rate,r_frame_rate,time_base,' +
    'start_time,duration,nb_frames,field_order,color_range,color_space,color_transfer,color_primaries,sample_rate,channels',
  'stream_disposition=attached_pic,default',
  'stream_side_data=side_data_type,displaymatrix',
].join(':');
const MAX_PROBE_TEXT = 1 << 20;

/** Looks into a file: streams by their headers, times by its packets. @throws RenderError */
export async function probe(
  kit: Kit,
  path: string,
  need: 'video' | 'audio',
  signal: AbortSignal,
): Promise<Probed> {
  return inspect(kit, path, need, await probeHeaders(kit, path, signal), signal);
}

/** As {@link probe} for sound, with the beginning of the picture beside it; undefined for a file without sound. */
export async function probeSound(kit: Kit, path: string, signal: AbortSignal): Promise<Probed | undefined> {
  const raw = await probeHeaders(kit, path, signal);
  if (!pick(raw.streams ?? [], 'audio')) return undefined;
  const sound = await inspect(kit, path, 'audio', raw, signal);
  if (!pick(raw.streams ?? [], 'video')) return sound;
  const { video } = await inspect(kit, path, 'video', raw, signal).catch((error: unknown) => {
    // A picture track that cannot be used does not matter to the sound.
    if (error instanceof RenderError) return { video: undefined };
    throw error;
  });
  return video ? { ...sound, video } : sound;
}

async function inspect(
  kit: Kit,
  path: string,
  need: 'video' | 'audio',
  raw: RawProbe,
  signal: AbortSignal,
): Promise<Probed> {
  const streams = raw.streams ?? [];
  const video = pick(streams, 'video');
  const audio = pick(streams, 'audio');
  if (need === 'video' && !video) throw unsupported('The video has no picture track that can be decoded.');
  if (need === 'audio' && !audio) throw unsupported('The file has no sound track that can be decoded.');
  const container = raw.format?.format_name ?? 'unknown';
  const audioInfo = audio && describeAudio(audio);
  const measured = need === 'video' ? video : audio;
  const times = await scanPackets(kit, path, measured as RawStream, signal);
  refuseCutOff(measured as RawStream, raw, times, need);
  const durationSec = times.durationUs / 1e6;
  if (durationSec > kit.limits.maxDurationSec) throw tooLong(kit, durationSec);

  const audioStartUs = audio ? microseconds(audio.start_time ?? raw.format?.start_time) : 0;
  const audioDetails = audio && { stream: audio.index, startUs: audioStartUs };
  if (need === 'audio' || !video) {
    return {
      info: { container, durationSec, ...(audioInfo ? { audio: audioInfo } : {}) },
      ...(audioDetails ? { audio: audioDetails } : {}),
    };
  }
  const details = describeVideo(kit, video, times, audio ? audioStartUs : undefined);
  const size = uprightSize(details.coded, aspect(video.sample_aspect_ratio), details.quarterTurns);
  if (times.packets > kit.limits.maxFrames) {
    throw new RenderError('input_too_large', `The video has more than ${kit.limits.maxFrames} frames.`);
  }
  refuseLarge(kit, details.coded);
  refuseLarge(kit, size);
  const frameRate = (times.packets * 1e6) / Math.max(1, times.durationUs);
  const audioSec = Number(audio?.duration) || 0;
  return {
    info: {
      container,
      durationSec: Math.max(durationSec, Math.min(audioSec, kit.limits.maxDurationSec)),
      video: {
        ...size,
        frameRate: Math.round(frameRate * 1000) / 1000,
        variableRate: times.variable,
        frameCount: times.packets,
        endUs: times.endUs - details.zeroUs,
        codec: video.codec_name ?? 'unknown',
        color: resolveColor(details.storedColor, details, kit.tools.toneMapping),
      },
      ...(audioInfo ? { audio: audioInfo } : {}),
    },
    video: details,
    ...(audioDetails ? { audio: audioDetails } : {}),
  };
}

export const unsupported = (message: string, cause?: unknown) =>
  new RenderError('unsupported_format', message, cause === undefined ? undefined : { cause });

async function probeHeaders(kit: Kit, path: string, signal: AbortSignal): Promise<RawProbe> {
  if ((await stat(path)).size === 0) throw unsupported('The file is empty.');
  const args = ['-v', 'error', '-print_format', 'json', '-show_entries', ENTRIES, ...inputArgs(path)];
  await using tool = await kit.start('ffprobe', args, { signal, wallSec: 60 });
  let text = '';
  for await (const chunk of tool.stdout.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_PROBE_TEXT) throw unsupported('The file has too many streams.');
  }
  const exit = await tool.exited;
  signal.throwIfAborted();
  if (exit.code !== 0)
    throw unsupported('The file is damaged, or no video or sound of a kind that is accepted.', exit.stderr);
  try {
    return JSON.parse(text) as RawProbe;
  } catch (cause) {
    throw unsupported('The file is damaged.', cause);
  }
}

/** The track that players choose: the one marked as default, else the first; never a cover picture. */
function pick(streams: readonly RawStream[], kind: 'video' | 'audio'): RawStream | undefined {
  const usable = streams.filter(
    (stream) =>
      stream.codec_type === kind &&
      stream.codec_name !== undefined &&
      stream.disposition?.attached_pic !== 1 &&
      (kind === 'audio'
        ? Number(stream.sample_rate) > 0
        : (stream.width ?? 0) > 0 && (stream.height ?? 0) > 0),
  );
  return usable.find((stream) => stream.disposition?.default === 1) ?? usable[0];
}

function describeAudio(stream: RawStream): AudioInfo {
  return {
    codec: stream.codec_name ?? 'unknown',
    sampleRate: Number(stream.sample_rate),
    channels: stream.channels ?? 1,
  };
}

function describeVideo(
  kit: Kit,
  stream: RawStream,
  times: PacketTimes,
  audioStartUs: number | undefined,
): VideoDetails {
  const { quarterTurns, mirrored } = orientation(
    stream.side_data_list?.find(({ displaymatrix }) => displaymatrix)?.displaymatrix,
  );
  const storedColor: ColorTags = {
    range: stream.color_range === 'pc' || stream.pix_fmt?.startsWith('yuvj') ? 'pc' : 'tv',
    space: stream.color_space ?? 'unknown',
    primaries: stream.color_primaries ?? 'unknown',
    transfer: stream.color_transfer ?? 'unknown',
  };
  if (!isResolvable(storedColor.space) && !kit.tools.toneMapping) {
    throw unsupported(
      `The colours of the video are stored in a way (${storedColor.space}) that cannot be read here.`,
    );
  }
  // Sound that begins before the picture is kept: the first frame is then shown from the beginning. Less than the
  // distance of two frames is what encoders leave at the start of sound, and is cut.
  const lead = audioStartUs === undefined ? 0 : times.startUs - audioStartUs;
  const frameUs = times.durationUs / Math.max(1, times.packets);
  return {
    stream: stream.index,
    zeroUs: lead > frameUs ? times.startUs - lead : times.startUs,
    untimed: times.untimed,
    quarterTurns,
    mirrored,
    coded: { width: stream.width ?? 0, height: stream.height ?? 0 },
    interlaced: !['progressive', 'unknown', undefined].includes(stream.field_order),
    storedColor,
    pixelFormat: stream.pix_fmt ?? 'unknown',
    hdr: storedColor.transfer === 'smpte2084' || storedColor.transfer === 'arib-std-b67',
  };
}

/**
 * Turns and mirroring of a display matrix (ISO 14496-12, 8.2.2.1), rounded to quarter turns clockwise; mirroring is left
 * to right and comes first.
 */
export function orientation(matrix: string | undefined): { quarterTurns: 0 | 1 | 2 | 3; mirrored: boolean } {
  const rows = matrix?.split('\n').map((line) => line.split(':')[1]?.trim().split(/\s+/).map(Number)) ?? [];
  const numbers = rows.filter((row) => row?.length === 3).flat() as number[];
  const [a = 1, b = 0, , c = 0, d = 1] = numbers;
  if (numbers.length < 6 || a * d - b * c === 0) return { quarterTurns: 0, mirrored: false };
  const mirrored = a * d - b * c < 0;
  const angle = mirrored ? Math.atan2(-b, -a) : Math.atan2(b, a);
  return { quarterTurns: ((Math.round(angle / (Math.PI / 2)) + 4) % 4) as 0 | 1 | 2 | 3, mirrored };
}

interface PacketTimes {
  readonly packets: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly durationUs: number;
  readonly variable: boolean;
  /** Some packets do not say when they are shown, only when they are decoded, as in AVI. */
  readonly untimed: boolean;
}

/** Reads the times of one stream's packets without decoding them: headers claim what they like. */
async function scanPackets(
  kit: Kit,
  path: string,
  stream: RawStream,
  signal: AbortSignal,
): Promise<PacketTimes> {
  const [num = 1, den = 1] = (stream.time_base ?? '1/1').split('/').map(Number);
  const args = [
    ...['-v', 'error', '-select_streams', String(stream.index)],
    ...['-show_entries', 'packet=pts,dts,duration,size,flags', '-of', 'compact=p=0:s=,', ...inputArgs(path)],
  ];
  await using tool = await kit.start('ffprobe', args, { signal, wallSec: 120 });
  const isVideo = stream.codec_type === 'video';
  const most = isVideo ? kit.limits.maxFrames : Number.POSITIVE_INFINITY;
  const toUs = (1e6 * num) / den;
  const shown = new Span();
  const decoded = new Span();
  let packets = 0;
  for await (const line of createInterface({ input: tool.stdout })) {
    const fields = new Map(line.split(',').map((part) => part.split('=') as [string, string]));
    // Empty ones repeat the frame before; those marked D are cut away by an edit list.
    if (!fields.has('size') || fields.get('size') === '0' || fields.get('flags')?.includes('D')) continue;
    packets++;
    const duration = Number(fields.get('duration')) || 0;
    shown.add(Number(fields.get('pts')), duration, isVideo);
    decoded.add(Number(fields.get('dts')), duration, isVideo);
    if (packets > most) throw new RenderError('input_too_large', `The video has more than ${most} frames.`);
    const soFar = Math.max(shown.length, decoded.length) * toUs;
    if (soFar > kit.limits.maxDurationSec * 1e6) throw tooLong(kit, soFar / 1e6);
  }
  await tool.exited;
  signal.throwIfAborted();
  if (packets === 0)
    throw unsupported('Nothing in the file can be decoded: it is damaged or cut off at its beginning.');
  const untimed = shown.count < packets;
  const span = untimed ? decoded : shown;
  const sorted = Float64Array.from(span.times).sort();
  // A bare stream may have no times at all: they are counted off while decoding.
  let { first, last, end } = span.count > 0 ? span : { first: 0, last: 0, end: 0 };
  const mean =
    span.count > 1 && last > first ? (last - first) / (span.count - 1) : statedDistance(stream, toUs);
  if (span.count === 0) last = (packets - 1) * mean;
  // Not every container says how long the last frame is shown: as long as the mean one.
  if (isVideo && !(end > last)) end = last + mean;
  end = Math.max(end, last);
  const late = untimed && shown.count > 0 ? shown.first - first : 0;
  return {
    packets,
    startUs: Math.round((first + late) * toUs),
    endUs: Math.round((end + late) * toUs),
    durationUs: Math.round((end - first) * toUs),
    variable: isVariable(sorted, toUs),
    untimed,
  };
}

/** Where times lie, in ticks. */
class Span {
  readonly times: number[] = [];
  count = 0;
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  end = Number.NEGATIVE_INFINITY;

  add(time: number, duration: number, keep: boolean): void {
    if (!Number.isFinite(time)) return;
    this.count++;
    if (keep) this.times.push(time);
    this.first = Math.min(this.first, time);
    this.last = Math.max(this.last, time);
    this.end = Math.max(this.end, time + duration);
  }

  get length(): number {
    return this.count > 0 ? this.end - this.first : 0;
  }
}

function statedDistance(stream: RawStream, toUs: number): number {
  const [num = 0, den = 0] = (stream.avg_frame_rate ?? '').split('/').map(Number);
  return (num > 0 && den > 0 ? (1e6 * den) / num : 40_000) / toUs;
}

/** Whether distances differ by more than two ticks, or two milliseconds where ticks are finer than files are exact. */
function isVariable(sorted: Float64Array, toUs: number): boolean {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 1; i < sorted.length; i++) {
    const distance = (sorted[i] as number) - (sorted[i - 1] as number);
    least = Math.min(least, distance);
    most = Math.max(most, distance);
  }
  return sorted.length > 2 && (most - least) * toUs > Math.max(1.5 * toUs, 2_000);
}

/** A download that broke off must not be charged as if it were the whole. */
function refuseCutOff(stream: RawStream, raw: RawProbe, times: PacketTimes, need: 'video' | 'audio'): void {
  const claimed = Number(stream.duration);
  const has = times.durationUs / 1e6;
  if (!(claimed > 0) || raw.format?.format_name === 'mp3' || raw.format?.format_name === 'aac') return;
  if (has < claimed - Math.max(1, claimed * 0.05)) {
    const what = need === 'video' ? 'The video' : 'The sound';
    throw unsupported(
      `${what} is cut off: it says that it is ${claimed.toFixed(1)} s long, but has only ${has.toFixed(1)} s. ` +
        'Upload the whole file.',
    );
  }
}

const tooLong = (kit: Kit, seconds: number) =>
  new RenderError(
    'input_too_large',
    `The input is ${Math.round(seconds)} s long or longer; at most ${kit.limits.maxDurationSec} s are taken.`,
  );

function refuseLarge(kit: Kit, { width, height }: Size): void {
  if (width * height > kit.limits.maxPixels) {
    throw new RenderError(
      'input_too_large',
      `The video is ${width} × ${height} pixels; at most ${kit.limits.maxPixels} pixels a frame are taken.`,
    );
  }
}

const microseconds = (seconds: string | undefined) => Math.round((Number(seconds) || 0) * 1e6);

/** Width of a pixel over its height; 1 where the file says nothing or nonsense. */
function aspect(ratio: string | undefined): number {
  const [num = 0, den = 0] = (ratio ?? '').split(':').map(Number);
  const value = num / den;
  return value >= 1 / 8 && value <= 8 ? value : 1;
}
