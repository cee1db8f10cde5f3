import { createMedia, findMediaTools, type OpenMedia } from '@semblance/media/media';
import type { VideoFile, VideoFrame } from '@semblance/media/types';
import { ContentCheckError } from '../check.ts';

/** Least interval between two examined frames of a video, in microseconds. */
const EVERY_US = 1_000_000;

/** Called often: for each hashed piece of a file, and for each frame. */
export type OnStep = () => void;

/** A frame, and the video that it is from. */
export interface SampledFrame {
  readonly frame: VideoFrame;
  readonly info: VideoFile;
}

/** Frames of videos, one for each second. */
export interface SampledFrames {
  /**
   * Yields frames whose longer side is at most `side` pixels.
   * @throws RenderError when the file cannot be read; ContentCheckError when this machine cannot read such files
   */
  of(path: string, side: number, signal: AbortSignal, onStep?: OnStep): AsyncIterable<SampledFrame>;
  close(): Promise<void>;
}

export function createSampledFrames(): SampledFrames {
  let media: Promise<OpenMedia> | undefined;
  /** Opens the media tools for the first video, and again after a failure. */
  const opened = () => {
    media ??= openMedia().catch((error: unknown) => {
      media = undefined;
      throw error;
    });
    return media;
  };
  return {
    async *of(path, side, signal, onStep) {
      const tools = await opened();
      const info = await tools.probe(path, 'video', signal);
      const { width, height } = info.video;
      const scale = Math.min(1, side / Math.max(width, height));
      const even = (length: number) => Math.max(2, 2 * Math.round((length * scale) / 2));
      const size = { width: even(width), height: even(height) };
      let next = 0;
      for await (const frame of tools.decodeVideo(path, info, { signal, size })) {
        onStep?.();
        if (frame.ptsUs < next) continue;
        next = frame.ptsUs + EVERY_US;
        yield { frame, info };
      }
    },
    async close() {
      await (await media?.catch(() => undefined))?.close();
    },
  };
}

async function openMedia(): Promise<OpenMedia> {
  const tools = await findMediaTools();
  if (!tools.available) throw new ContentCheckError(`video cannot be looked at: ${tools.reason}`);
  return createMedia({ tools, threads: 1 });
}
