import type { FrameMemory } from './frame-memory.ts';

/** States what the media layer and the engines say to each other about video and sound. */

/** One decoded picture of a video: upright, square pixels, 8 bit 4:2:0. */
export interface VideoFrame {
  /** From 0. */
  readonly index: number;
  /** Presentation time from the start of the video, microseconds; strictly rising, distances may vary. */
  readonly ptsUs: number;
  /** Even. */
  readonly width: number;
  /** Even. */
  readonly height: number;
  /** Planes Y, U, V one after the other without padding: width × height × 3/2 bytes. Owned by whoever received it. */
  readonly data: Uint8Array;
}

/** How the numbers of a frame mean colours; kept from input to output. Names as ffmpeg writes them. */
export interface ColorTags {
  /** `tv` (16–235) or `pc` (0–255). */
  readonly range: 'tv' | 'pc';
  /** Matrix, such as `bt709`, `smpte170m`. */
  readonly space: string;
  readonly primaries: string;
  readonly transfer: string;
}

export interface VideoInfo {
  /** Size of the frames that are decoded: upright and with square pixels. */
  readonly width: number;
  readonly height: number;
  /** Mean frames per second. */
  readonly frameRate: number;
  /** True when distances between frames differ by more than a rounding of the time base. */
  readonly variableRate: boolean;
  /** Frames in the stream, as far as known without decoding it; progress is counted against it. */
  readonly frameCount: number;
  /** States when the last frame stops being shown, microseconds; what `finish` of a writer wants. */
  readonly endUs?: number;
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
  /** Seconds, of the longest stream that is used. */
  readonly durationSec: number;
  readonly video?: VideoInfo;
  readonly audio?: AudioInfo;
}

/** Bounds on what is taken in; over one of them is `input_too_large`. */
export interface MediaLimits {
  readonly maxDurationSec: number;
  readonly maxPixels: number;
  readonly maxFrames: number;
}

export interface DecodeOptions {
  readonly signal: AbortSignal;
  /** Size to scale to while decoding; both even. Default: as the video is. */
  readonly size?: { readonly width: number; readonly height: number };
  /**
   * Frames that are shown from this time on are wanted, microseconds: decoding begins before it, where the file can be
   * entered, else at its beginning. The first ones may lack what they refer to, and look otherwise than in the whole.
   * Frames are numbered from the first that comes. Default: all.
   */
  readonly fromUs?: number | undefined;
  /** States where frames are taken from. Default: memory of their own. */
  readonly memory?: FrameMemory;
}

export interface WriterOptions {
  /** File to write, an .mp4; it appears whole or not at all. */
  readonly path: string;
  readonly width: number;
  readonly height: number;
  readonly color: ColorTags;
  readonly signal: AbortSignal;
  /** Nominal rate, for the header; times come with the frames. */
  readonly frameRate: number;
  /** Sound to put beside the frames: a file whose first audio stream is kept as it is where MP4 can carry it. */
  readonly audio?: { readonly path: string };
  /** States where frames go once they are written: they then belong to the writer and are not copied. */
  readonly memory?: FrameMemory;
}

export interface WrittenVideo {
  readonly frames: number;
  /** Length of the produced file as read from it, milliseconds. */
  readonly durationMs: number;
}

export interface VideoWriter {
  /**
   * Waits while the encoder is behind. Frames come in order, the first at 0; their bytes are copied, unless `memory`
   * takes them.
   */
  write(frame: Pick<VideoFrame, 'ptsUs' | 'data'>): Promise<void>;
  /** @param endUs when the last frame stops being shown, microseconds */
  finish(endUs: number): Promise<WrittenVideo>;
  /** Ends the encoder and removes what it wrote. */
  abort(): Promise<void>;
}

/** Decoding and encoding by ffmpeg in sandboxed child processes. All errors about the input are RenderErrors. */
export interface Media {
  /** @throws RenderError unsupported_format, input_too_large */
  probe(path: string, need: 'video' | 'audio', signal: AbortSignal): Promise<MediaInfo>;
  /** Frames one by one; at most a few are held. @throws RenderError */
  decodeVideo(path: string, info: MediaInfo, options: DecodeOptions): AsyncIterable<VideoFrame>;
  openWriter(options: WriterOptions): Promise<VideoWriter>;
  /**
   * Mono samples in [-1, 1], in chunks of about a second, from the time of the file's first frame (of its first sample
   * where there is no picture). @throws RenderError
   */
  decodeAudio(
    path: string,
    options: { readonly sampleRate: number; readonly signal: AbortSignal },
  ): AsyncIterable<Float32Array>;
}

/** Size for an output whose shorter side is `shorter` pixels: aspect kept, even, never larger than `from`. */
export interface Size {
  readonly width: number;
  readonly height: number;
}
