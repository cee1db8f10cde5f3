import { createGuard } from '@semblance/common/process/guard';
import { decodeAudio } from './decode-audio.ts';
import { decodeVideo } from './decode-video.ts';
import type { Wall } from './isolation.ts';
import { createKit } from './kit.ts';
import { measure, type OnDecoded } from './measure.ts';
import { type Probed, probe, probeSound } from './probe.ts';
import type { MediaTools } from './tools.ts';
import type { Media, MediaInfo, MediaLimits, WrittenVideo } from './types.ts';
import { openWriter } from './writer.ts';

export { findMediaTools, type MediaTools } from './tools.ts';

/** Half an hour of at most 4K at 60 frames per second. */
const DEFAULT_MEDIA_LIMITS: MediaLimits = {
  maxDurationSec: 1_800,
  maxPixels: 4_096 * 2_304,
  maxFrames: 1_800 * 60,
};

export interface MediaOptions {
  /** From `findMediaTools()`. */
  readonly tools: MediaTools;
  readonly limits?: Partial<MediaLimits>;
  /** Threads that one decoder, and one encoder, may use. Default: 2. */
  readonly threads?: number;
  /** Address space of one child process, in MiB. */
  readonly memoryMib?: number;
  /** Seconds without progress of a child, reading or writing, before it is killed. */
  readonly stallSec?: number;
  /** Nice value of the child processes. Default: that of this process. */
  readonly nice?: number;
}

/** The state of the media layer for an agent's status. */
export interface MediaStatus {
  readonly ffmpeg: string;
  /** The walls around child processes. */
  readonly walls: readonly Wall[];
  readonly toneMapping: boolean;
}

export interface OpenMedia extends Media {
  readonly status: MediaStatus;
  /**
   * Returns length and frames of a finished video of any origin, as decoded. @throws RenderError processing_failed
   */
  readonly measure: (path: string, signal: AbortSignal, onDecoded?: OnDecoded) => Promise<WrittenVideo>;
  /** Ends the guard process. All decoding and writing must have ended before. */
  close(): Promise<void>;
}

/** Creates decoding and encoding through the ffmpeg of this machine. */
export function createMedia(options: MediaOptions): OpenMedia {
  const guard = createGuard({ graceMs: 200 });
  const kit = createKit({
    tools: options.tools,
    guard,
    limits: { ...DEFAULT_MEDIA_LIMITS, ...options.limits },
    threads: options.threads ?? 2,
    memoryMib: options.memoryMib ?? 3_072,
    stallSec: options.stallSec ?? 60,
    nice: options.nice,
  });
  // Kept here because decoding needs more information about a file than engines receive.
  const known = new WeakMap<MediaInfo, Probed>();
  const remember = async (probed: Promise<Probed>) => {
    const result = await probed;
    known.set(result.info, result);
    return result;
  };
  return {
    status: {
      ffmpeg: kit.tools.version,
      walls: kit.tools.isolation.stands,
      toneMapping: kit.tools.toneMapping,
    },
    async probe<Need extends 'video' | 'audio'>(path: string, need: Need, signal: AbortSignal) {
      const { info } = await remember(probe(kit, path, need, signal));
      // `probe` refuses a file without the track.
      return info as MediaInfo & Required<Pick<MediaInfo, Need>>;
    },
    async *decodeVideo(path, info, decode) {
      const probed = known.get(info) ?? (await probe(kit, path, 'video', decode.signal));
      yield* decodeVideo(kit, path, probed, decode);
    },
    openWriter: (writer) => openWriter(kit, writer),
    async *decodeAudio(path, decode) {
      yield* decodeAudio(kit, path, await probeSound(kit, path, decode.signal), decode);
    },
    measure: (path, signal, onDecoded) => measure(kit, path, signal, onDecoded),
    close: () => guard.close(),
  };
}
