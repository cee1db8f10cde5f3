import { join } from 'node:path';
import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import { FrameMemory } from '@semblance/media/frame-memory';
import { prefetch } from '@semblance/media/prefetch';
import { outputSize } from '@semblance/media/size';
import type { Media, VideoFrame, VideoWriter } from '@semblance/media/types';
import { cropsOf } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { faceCounts } from '../findings/face-counts.ts';
import {
  faceHints,
  framesUnchanged,
  hintsOfLeft,
  keptInFrames,
  LOOKED_AT,
  severalFaces,
  sourceHints,
} from '../findings/hints.ts';
import type { Inspector, Renderer, RenderTools } from '../renderer.ts';
import { StageTimes } from '../stage-times.ts';
import { prepareSource } from '../swap/source-face.ts';
import type { Colors } from './frame-part.ts';
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

const VIDEO = { role: 'video', name: 'video' };
const FACE = { role: 'face', name: 'face picture' };

/** Runs Video Swap in a worker thread: the face of a picture (`face`) is put onto the faces of a video (`video`). */
export const renderVideoSwap: Renderer = async (work, tools) => {
  const { video, face } = work.inputs;
  if (!video || !face)
    throw new RenderError('processing_failed', 'Video Swap needs the inputs video and face.');
  const shorter = work.parameters.output_resolution_p;
  const job = { video, face, outputDir: work.outputDir };
  return videoSwap(shorter ? { ...job, shorterSide: Number(shorter) } : job, await tools.media(), tools);
};

/** Looks at the face picture. */
export const inspectVideoSwap: Inspector = async ({ inputs: { face } }, tools) => {
  if (!face) throw new RenderError('processing_failed', 'Video Swap needs the input face.');
  return { hints: (await readSource(face, tools)).hints };
};

/** Returns the face to be put on others, and hints about its picture. @throws RenderError */
async function readSource(
  path: string,
  { finder, likeness, checkpoint }: Pick<RenderTools, 'finder' | 'likeness' | 'checkpoint'>,
): Promise<{ readonly source: SwapSource; readonly hints: readonly Hint[] }> {
  const picture = await readFace(path);
  const { faces, left } = await finder.look(picture, checkpoint);
  const [face] = faces;
  if (!face) {
    const message = 'No face was found in the face picture (face_key).';
    throw new RenderError('face_not_detected', message, { findings: { hints: hintsOfLeft(left, FACE) } });
  }
  const options = { likeness, cover: await finder.coverOf(cropsOf(picture), face) };
  return {
    source: { picture, points: face.points, score: face.score, options },
    hints: [
      ...severalFaces(faces.length, FACE),
      ...faceHints(face, FACE, cropsOf(picture)),
      ...sourceHints(prepareSource(picture, face, LOOKED_AT, options), FACE),
    ],
  };
}

export interface VideoSwapJob {
  readonly video: string;
  /** Path of the face picture. */
  readonly face: string;
  readonly outputDir: string;
  /** Shorter side of the output in pixels, at most that of the video. */
  readonly shorterSide?: number;
}

/** @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large` */
export async function videoSwap(
  job: VideoSwapJob,
  media: Media,
  tools: Omit<RenderTools, 'media'>,
): Promise<RenderResult> {
  const { finder, recogniser, checkpoint, signal, onProgress } = tools;
  const times = new StageTimes();
  const { timed } = times;
  onProgress(0, 'face');
  const { source, hints } = await timed('face', () => readSource(job.face, tools));
  checkpoint();
  const info = await media.probe(job.video, 'video', signal);
  const { video } = info;
  if (!video) throw new RenderError('unsupported_format', 'The video has no picture.');
  const size = outputSize(video, job.shorterSide);
  const colors: Colors = video.color;
  const longest = size.width * size.height > MAX_HELD ? SHORT_RUN : RUN;
  const tracker = new FaceTracker(finder, colors, checkpoint, recogniser);
  const memory = new FrameMemory();
  const outputPath = join(job.outputDir, 'output.mp4');
  const writer = await media.openWriter({
    path: outputPath,
    ...size,
    color: video.color,
    signal,
    frameRate: video.frameRate,
    memory,
    ...(info.audio ? { audio: { path: job.video } } : {}),
  });
  let swap: SwapFrames | undefined;
  try {
    const threads = swapThreads();
    swap = new SwapFrames({ finder, threads, source, colors, writer: counted(writer), checkpoint });
    let waiting: VideoFrame[] = [];
    let run: VideoFrame[] = [];
    let [lastUs, gapUs] = [0, 1e6 / Math.max(1, video.frameRate)];
    const advance = async (): Promise<void> => {
      const [before, now] = [waiting, run];
      [waiting, run] = [now, []];
      await timed('track', () => tracker.follow(now, before));
      await timed('swap', () => (swap as SwapFrames).add(before, tracker));
      tracker.forgetBefore((now[0]?.index ?? 0) - SHORT_RUN);
    };
    const decoded = prefetch(
      each(media.decodeVideo(job.video, info, { signal, size, memory })),
      DECODED_AHEAD,
    );
    for await (const frame of decoded) {
      checkpoint();
      if (frame.index > 0) gapUs = frame.ptsUs - lastUs;
      lastUs = frame.ptsUs;
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
    if (tracker.found === 0) {
      const { left } = tracker;
      const findings = { faces: faceCounts(0, left), hints: [...hints, ...hintsOfLeft(left, VIDEO)] };
      const message = 'No face was found in the video (video_key).';
      throw new RenderError('face_not_detected', message, { findings });
    }
    onProgress(0.97, 'write');
    const written = await timed('write', () => writer.finish(video.endUs ?? lastUs + gapUs));
    onProgress(1, 'done');
    return {
      outputPath,
      contentType: 'video/mp4',
      units: { unit: 'second', quantity: written.durationMs / 1000 },
      stages: times.stages,
      details: {
        faces: swap.mostFaces,
        frames: written.frames,
        frames_with_swap: swap.swapped,
        shots: tracker.shots,
        ...size,
      },
      findings: {
        faces: faceCounts(swap.mostFaces, tracker.left),
        hints: [
          ...hints,
          ...keptInFrames(swap.tracks, swap.swapped),
          ...framesUnchanged(
            { unchanged: written.frames - swap.swapped, frames: written.frames },
            VIDEO,
            'face',
          ),
        ],
      },
    };
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    swap?.close();
  }

  /** Reports the progress of the video with every written frame. */
  function counted(inner: VideoWriter): Pick<VideoWriter, 'write'> {
    let frames = 0;
    const expected = Math.max(1, video?.frameCount ?? 1);
    return {
      async write(frame) {
        await inner.write(frame);
        onProgress(0.02 + 0.95 * Math.min(1, ++frames / expected), 'swap');
      },
    };
  }
}

async function* each<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  yield* items;
}
