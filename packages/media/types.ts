import type { FrameMemory } from './frame-memory.ts';

/** Types of video and sound between the media layer and the engines. */

/** One decoded picture of a video: upright, square pixels, 8-bit 4:2:0. */
export interface VideoFrame {
  /** From 0. */
  readonly index: number;
  /** Presentation time from the start of the video in microseconds; strictly increasing, with any distances. */
  readonly ptsUs: number;
  /** Even. */
  readonly width: number;
  /** Even. */
  readonly height: number;
  /** Planes Y, U, V in order without padding: width × height × 3/2 bytes. Its receiver owns it. */
  readonly data: Uint8Array;
}

/** Meaning of a frame's numbers as colours; kept from input to output. Names are ffmpeg's. */
export interface ColorTags {
  /** `tv` (16–235) or `pc` (0–255). */
  readonly range: 'tv' | 'pc';
  /** Matrix, such as `bt709`, `smpte170m`. */
  readonly space: string;
  readonly primaries: string;
  readonly transfer: string;
}

export interface VideoInfo {
  /** Size of the decoded frames: upright and with square pixels. */
  readonly width: number;
  readonly height: number;
  /** Mean frames per second. */
  readonly frameRate: number;
  /** True when distances between frames differ by more than a rounding of the time base. */
  readonly variableRate: boolean;
  /** Number of frames as far as known without decoding; progress is measured against it. */
  readonly frameCount: number;
  /** End of the last frame, in microseconds, for `finish` of a writer. */
  readonly endUs: number;
  readonly codec: string;
  readonly color: ColorTags;
}

export interface AudioInfo {
  readonly codec: string;
  readonly sampleRate: number;
  readonly channels: number;
}

export interface MediaInfo {
  readonly container: string;
  /** Length of the longest used stream, in seconds. */
  readonly durationSec: number;
  readonly video?: VideoInfo;
  readonly audio?: AudioInfo;
}

/** Information about a file that has a picture. */
export type VideoFile = MediaInfo & Required<Pick<MediaInfo, 'video'>>;

/** Limits of an input; exceeding one is `input_too_large`. */
export interface MediaLimits {
  readonly maxDurationSec: number;
  readonly maxPixels: number;
  readonly maxFrames: number;
}

/** Some frames of a video, for a look at it. They are numbered from 0. */
export interface Sampling {
  /** Least time between two of them, in microseconds. */
  readonly apartUs: number;
  /** Key frames alone: the frames between them are not decoded, which takes a small part of the time. */
  readonly keyFrames: boolean;
}

export interface DecodeOptions {
  readonly signal: AbortSignal;
  /** Size of the decoded frames; both even. Default: that of the video. */
  readonly size?: { readonly width: number; readonly height: number };
  /**
   * Time from which frames are wanted, in microseconds. Decoding begins at a seek point before it, otherwise at the
   * start. The first frames may lack their references and look different. Frames are numbered from the first that
   * arrives. Default: all.
   */
  readonly fromUs?: number | undefined;
  /** Which frames are wanted. Default: all. */
  readonly sample?: Sampling | undefined;
  /** Memory for frames. Default: new memory for each. */
  readonly memory?: FrameMemory;
}

export interface WriterOptions {
  /** File to write, an .mp4; it appears completely or not at all. */
  readonly path: string;
  readonly width: number;
  readonly height: number;
  readonly color: ColorTags;
  readonly signal: AbortSignal;
  /** Nominal rate for the header; frames have their own times. */
  readonly frameRate: number;
  /** File whose first audio stream is added, unchanged where MP4 can carry it. */
  readonly audio?: { readonly path: string };
  /** Memory that gets written frames back: the writer then owns them and makes no copy. */
  readonly memory?: FrameMemory;
}

export interface WrittenVideo {
  readonly frames: number;
  /** Length of the produced file, as read from it, in ms. */
  readonly durationMs: number;
  /** Width and height of its frames in pixels. */
  readonly size: Size;
}

export interface VideoWriter {
  /**
   * Waits while the encoder is behind. Frames come in order, the first at 0; their bytes are copied unless `memory`
   * takes them.
   */
  write(frame: Pick<VideoFrame, 'ptsUs' | 'data'>): Promise<void>;
  /** @param endUs end of the last frame, in microseconds */
  finish(endUs: number): Promise<WrittenVideo>;
  /** Ends the encoder and removes its files. */
  abort(): Promise<void>;
}

/** Decoding and encoding by ffmpeg in sandboxed child processes. All errors about the input are RenderErrors. */
export interface Media {
  /** Examines a file, which must have a track of the kind `need`. @throws RenderError unsupported_format, input_too_large */
  probe<Need extends 'video' | 'audio'>(
    path: string,
    need: Need,
    signal: AbortSignal,
  ): Promise<MediaInfo & Required<Pick<MediaInfo, Need>>>;
  /** Yields frames one by one; at most a few are in memory. @throws RenderError */
  decodeVideo(path: string, info: MediaInfo, options: DecodeOptions): AsyncIterable<VideoFrame>;
  openWriter(options: WriterOptions): Promise<VideoWriter>;
  /**
   * Yields mono samples in [-1, 1], in chunks of about a second, from the time of the file's first frame (or of its
   * first sample without a picture). @throws RenderError
   */
  decodeAudio(
    path: string,
    options: { readonly sampleRate: number; readonly signal: AbortSignal },
  ): AsyncIterable<Float32Array>;
}

/** Width and height in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}
