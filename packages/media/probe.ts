import { RenderError } from '@semblance/engine-api/engine';
import { isResolvable, resolveColor } from './color.ts';
import { PICTURES, SOUND } from './formats.ts';
import { pickStream, type RawStream, unsupported } from './headers.ts';
import type { Kit } from './kit.ts';
import type { OpenFile } from './open-files.ts';
import { type PacketTimes, tooLong } from './packets.ts';
import { uprightSize } from './size.ts';
import type { AudioInfo, ColorTags, MediaInfo, Size } from './types.ts';

const ANIMATED_PICTURES: ReadonlySet<string> = new Set(['gif', 'apng']);

/** Information that decoding needs beyond what engines receive. */
export interface VideoDetails {
  readonly stream: number;
  /** Time in the file at which the output begins, in microseconds. */
  readonly zeroUs: number;
  /** Whether the file has no frame times. The first decoded frame is then the beginning. */
  readonly untimed: boolean;
  readonly quarterTurns: 0 | 1 | 2 | 3;
  readonly mirrored: boolean;
  /** As stored, before rotation and pixel aspect. */
  readonly coded: Size;
  readonly interlaced: boolean;
  readonly storedColor: ColorTags;
  readonly pixelFormat: string;
  /** Whether it is an animated picture, which may have transparent pixels. */
  readonly seeThrough: boolean;
  /** High dynamic range: PQ or HLG. */
  readonly hdr: boolean;
}

/** A sound track, and the start of the picture in it. */
export interface Sound {
  readonly stream: number;
  readonly codec: string;
  /** Time in the file that coincides with the start of the picture, in microseconds. */
  readonly zeroUs: number;
}

export interface Probed {
  readonly info: MediaInfo;
  readonly video?: VideoDetails;
}

/** Examines a file: streams by their headers, times by its packets. @throws RenderError */
export async function probe(
  kit: Kit,
  path: string,
  need: 'video' | 'audio',
  signal: AbortSignal,
): Promise<Probed> {
  const file = await kit.open(path, signal);
  return need === 'video' ? probeVideo(kit, file, signal) : probeAudio(kit, file, signal);
}

/** Returns the sound of a file with the start of its picture; undefined for a file without sound. */
export async function probeSound(kit: Kit, path: string, signal: AbortSignal): Promise<Sound | undefined> {
  const file = await kit.open(path, signal);
  const stream = pickSound(file);
  if (!stream) return undefined;
  const startUs = startOf(stream, file);
  const sound = { stream: stream.index, codec: stream.codec_name ?? 'unknown', zeroUs: startUs };
  if (!pickStream(file.streams, 'video')) return sound;
  try {
    const { video } = await probeVideo(kit, file, signal);
    return { ...sound, zeroUs: video?.zeroUs ?? startUs };
  } catch (error) {
    // An unusable picture track does not matter for the sound.
    if (error instanceof RenderError) return sound;
    throw error;
  }
}

async function probeAudio(kit: Kit, file: OpenFile, signal: AbortSignal): Promise<Probed> {
  const stream = pickSound(file);
  if (!stream) throw unsupported('The file has no sound track that can be decoded.');
  const times = await file.times(stream, signal);
  refuseCutOff(stream, file, times, 'The sound');
  const durationSec = times.durationUs / 1e6;
  if (durationSec > kit.limits.maxDurationSec) throw tooLong(kit, durationSec);
  return { info: { container: file.container, durationSec, audio: describeAudio(stream) } };
}

async function probeVideo(kit: Kit, file: OpenFile, signal: AbortSignal): Promise<Probed> {
  const stream = pickStream(file.streams, 'video');
  if (!stream) throw unsupported('The file has no picture track that can be decoded.');
  if (!PICTURES.has(stream.codec_name ?? '')) {
    throw unsupported(
      `The picture is of a kind that is not accepted (${stream.codec_name}). Convert it to H.264.`,
    );
  }
  refuseLarge(kit, { width: stream.width ?? 0, height: stream.height ?? 0 });
  const times = await file.times(stream, signal);
  refuseCutOff(stream, file, times, 'The video');
  const durationSec = times.durationUs / 1e6;
  if (durationSec > kit.limits.maxDurationSec) throw tooLong(kit, durationSec);
  const audio = pickSound(file);
  const video = describeVideo(kit, stream, times, audio ? startOf(audio, file) : undefined);
  const size = uprightSize(video.coded, aspect(stream.sample_aspect_ratio), video.quarterTurns);
  refuseLarge(kit, size);
  const audioSec = Number(audio?.duration) || 0;
  if (audioSec > kit.limits.maxDurationSec) throw tooLong(kit, audioSec);
  const frameRate = (times.packets * 1e6) / Math.max(1, times.durationUs);
  return {
    info: {
      container: file.container,
      durationSec: Math.max(durationSec, audioSec),
      video: {
        ...size,
        frameRate: Math.round(frameRate * 1000) / 1000,
        variableRate: times.variable,
        frameCount: times.packets,
        endUs: times.endUs - video.zeroUs,
        codec: stream.codec_name ?? 'unknown',
        color: resolveColor(video.storedColor, video, kit.tools.toneMapping),
      },
      ...(audio ? { audio: describeAudio(audio) } : {}),
    },
    video,
  };
}

/**
 * Returns the audible track. A track that cannot be decoded is refused here, before its picture is made. A track
 * with an unknown codec is refused instead of dropped, unless there is another one.
 */
function pickSound(file: OpenFile): RawStream | undefined {
  const stream = pickStream(file.streams, 'audio');
  const track = stream ?? file.streams.find(({ codec_type: type }) => type === 'audio');
  const codec = track?.codec_name ?? 'unknown';
  if (track && !SOUND.has(codec)) {
    const named = codec === 'unknown' ? '' : ` (${codec})`;
    throw unsupported(
      `The sound is of a kind that is not accepted${named}. Convert it to AAC, or upload the file without sound.`,
    );
  }
  return stream;
}

/** Returns the start of a stream in the file, by its header, in microseconds. */
const startOf = (stream: RawStream, file: OpenFile) => microseconds(stream.start_time ?? file.startTime);

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
  const seeThrough = ANIMATED_PICTURES.has(stream.codec_name ?? '');
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
  // Sound that begins before the picture is kept, and the first frame is shown from the beginning. A lead of less
  // than one frame is padding of encoders, and is cut.
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
    // Decoding lays them over white, as RGB.
    pixelFormat: seeThrough ? 'rgba' : (stream.pix_fmt ?? 'unknown'),
    seeThrough,
    hdr: storedColor.transfer === 'smpte2084' || storedColor.transfer === 'arib-std-b67',
  };
}

/**
 * Returns rotation and mirroring of a display matrix (ISO 14496-12, 8.2.2.1), rounded to quarter turns clockwise.
 * Mirroring is left to right and comes first.
 */
function orientation(matrix: string | undefined): { quarterTurns: 0 | 1 | 2 | 3; mirrored: boolean } {
  const rows = matrix?.split('\n').map((line) => line.split(':')[1]?.trim().split(/\s+/).map(Number)) ?? [];
  const numbers = rows.filter((row) => row?.length === 3).flat() as number[];
  const [a = 1, b = 0, , c = 0, d = 1] = numbers;
  if (numbers.length < 6 || a * d - b * c === 0) return { quarterTurns: 0, mirrored: false };
  const mirrored = a * d - b * c < 0;
  const angle = mirrored ? Math.atan2(-b, -a) : Math.atan2(b, a);
  return { quarterTurns: ((Math.round(angle / (Math.PI / 2)) + 4) % 4) as 0 | 1 | 2 | 3, mirrored };
}

/** Refuses a truncated download, which must not be charged as if it were complete. */
function refuseCutOff(stream: RawStream, file: OpenFile, times: PacketTimes, what: string): void {
  const claimed = Number(stream.duration);
  const has = times.durationUs / 1e6;
  // These two formats state no length; ffprobe guesses it from their rate.
  if (!(claimed > 0) || file.container === 'mp3' || file.container === 'aac') return;
  if (has < claimed - Math.max(1, claimed * 0.05)) {
    throw unsupported(
      `${what} is cut off: it says that it is ${claimed.toFixed(1)} s long, but has only ${has.toFixed(1)} s. ` +
        'Upload the whole file.',
    );
  }
}

function refuseLarge(kit: Kit, { width, height }: Size): void {
  if (width * height > kit.limits.maxPixels) {
    throw new RenderError(
      'input_too_large',
      `The video is ${width} × ${height} pixels; at most ${kit.limits.maxPixels} pixels a frame are taken.`,
    );
  }
}

const microseconds = (seconds: string | undefined) => Math.round((Number(seconds) || 0) * 1e6);

/** Returns the width of a pixel over its height; 1 if the file states none or an absurd one. */
function aspect(ratio: string | undefined): number {
  const [num = 0, den = 0] = (ratio ?? '').split(':').map(Number);
  const value = num / den;
  return value >= 1 / 8 && value <= 8 ? value : 1;
}
