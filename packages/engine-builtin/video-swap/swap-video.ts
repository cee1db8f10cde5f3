import { join } from 'node:path';
import { FrameMemory } from '@semblance/media/frame-memory';
import { openLike } from '@semblance/media/open-like';
import { prefetch } from '@semblance/media/prefetch';
import type { Media, Size, VideoFile, VideoFrame, VideoWriter, WrittenVideo } from '@semblance/media/types';
import type { RenderTools } from '../renderer.ts';
import type { StageTimes } from '../stage-times.ts';
import type { People } from './people.ts';
import { SwapFrames } from './swap-frames.ts';
import type { SwapSource } from './swap-protocol.ts';
import { swapThreads } from './swap-threads.ts';
import { FaceTracker } from './tracker.ts';

/**
 * Number of frames tracked at a time, in which faces are searched and analysed once. Large frames reduce it to what
 * memory allows, but never below the frames that one drawing needs.
 */
const RUN = 20;
const SHORT_RUN = 10;
const MAX_HELD = 1920 * 1088;
/** Frames that may be decoded while others are tracked. */
const DECODED_AHEAD = 8;

/** A video and the face that is put on its faces. */
export interface VideoToSwap {
  readonly path: string;
  readonly info: VideoFile;
  /** Size of the output. */
  readonly size: Size;
  readonly source: SwapSource;
  readonly outputDir: string;
  /** Decides whose face is replaced; default: those of all people who are as prominent as the first. */
  readonly people?: People;
  /** Sources that `people` name by their places, beginning with `source`; default: `source` alone. */
  readonly sources?: readonly SwapSource[] | undefined;
}

export interface SwappedVideo {
  readonly outputPath: string;
  readonly written: WrittenVideo;
  readonly swap: SwapFrames;
  readonly tracker: FaceTracker;
}

/**
 * Puts a face on the faces of a video and writes it with its sound.
 * @param tools `onTracked` is called before the file is finished, and throws where there is nothing to finish
 * @throws RenderError `unsupported_format`, `input_too_large`, and what `onTracked` throws
 */
export async function swapVideo(
  { path, info, size, source, sources, outputDir, people }: VideoToSwap,
  media: Media,
  tools: Omit<RenderTools, 'media'> & {
    readonly timed: StageTimes['timed'];
    readonly onTracked: (tracker: FaceTracker) => void;
  },
): Promise<SwappedVideo> {
  const { finder, recogniser, checkpoint, signal, onProgress, timed } = tools;
  const { video } = info;
  const colors = video.color;
  const longest = size.width * size.height > MAX_HELD ? SHORT_RUN : RUN;
  const tracker = new FaceTracker(finder, colors, checkpoint, recogniser, people);
  const memory = new FrameMemory();
  const outputPath = join(outputDir, 'output.mp4');
  const writer = await openLike(media, { path, ...info }, { path: outputPath, ...size, signal, memory });
  let swap: SwapFrames | undefined;
  try {
    const threads = swapThreads();
    const drawn = { source, ...(sources && { sources }) };
    swap = new SwapFrames({ finder, threads, ...drawn, colors, writer: counted(writer), checkpoint });
    let waiting: VideoFrame[] = [];
    let run: VideoFrame[] = [];
    const advance = async (): Promise<void> => {
      const [before, now] = [waiting, run];
      [waiting, run] = [now, []];
      await timed('track', () => tracker.follow(now, before));
      await timed('swap', () => (swap as SwapFrames).add(before, tracker));
      tracker.forgetBefore((now[0]?.index ?? 0) - SHORT_RUN);
    };
    const decoded = prefetch(media.decodeVideo(path, info, { signal, size, memory }), DECODED_AHEAD);
    for await (const frame of decoded) {
      checkpoint();
      run.push(frame);
      // The encoder is idle until two runs are tracked, so the first runs are short.
      if (run.length === (frame.index < 2 * SHORT_RUN ? SHORT_RUN : longest)) await advance();
    }
    if (run.length > 0) await advance();
    const last = waiting.at(-1);
    if (last) tracker.end(last.index);
    await timed('swap', async () => {
      await swap?.add(waiting, tracker);
      await swap?.finish();
    });
    tools.onTracked(tracker);
    onProgress(0.97, 'write');
    const written = await timed('write', () => writer.finish(video.endUs));
    return { outputPath, written, swap, tracker };
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    swap?.close();
  }

  /** Reports the progress of the video with every written frame. */
  function counted(inner: VideoWriter): Pick<VideoWriter, 'write'> {
    let frames = 0;
    const expected = Math.max(1, video.frameCount);
    return {
      async write(frame) {
        await inner.write(frame);
        onProgress(0.02 + 0.95 * Math.min(1, ++frames / expected), 'swap');
      },
    };
  }
}
