import { join } from 'node:path';
import { raceAbort } from '@semblance/common/async/abort';
import {
  type InspectRequest,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { Findings, Hint, LeftReason } from '@semblance/engine-api/findings';
import { faceCounts } from '@semblance/engine-builtin/findings/face-counts';
import { framesUnchanged, hintsOfLeft } from '@semblance/engine-builtin/findings/hints';
import { sampleFaces } from '@semblance/engine-builtin/first-look/samples';
import { videoResult } from '@semblance/engine-builtin/video-result';
import { FaceTracker } from '@semblance/engine-builtin/video-swap/tracker';
import { FrameMemory } from '@semblance/media/frame-memory';
import { openLike } from '@semblance/media/open-like';
import { outputSize } from '@semblance/media/size';
import type { Media, VideoFrame } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { readFace } from '@semblance/vision/image/picture-file';
import type { FaceSwap } from './face-swap.ts';
import { findIdentity } from './source-identity.ts';
import { StageLog } from './stages/models.ts';
import { FrameLine, RUN } from './swap-frames/frame-line.ts';
import type { SwapThreads } from './swap-frames/swap-threads.ts';

const VIDEO = { role: 'video', name: 'video' };

export interface VideoParts {
  readonly swap: FaceSwap;
  readonly finder: FaceFinder;
  readonly media: Media;
}

export interface VideoSwapParts extends VideoParts {
  readonly threads: SwapThreads;
  /**
   * Recognises people after a cut. It is not the owner's model, because the thresholds of `builtin` were measured
   * with this one.
   */
  readonly recogniser: () => Promise<FaceRecogniser>;
  /** Paths of further pictures of the face. */
  readonly others?: readonly string[];
}

/**
 * Puts the face of a picture (`face`) onto the faces of a video (`video`): `builtin` tracks the faces, the models
 * swap.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function videoSwap(
  { swap, threads, finder, media, recogniser, others = [] }: VideoSwapParts,
  request: RenderRequest,
): Promise<RenderResult> {
  const { inputs, parameters, options, outputDir, signal, onProgress } = request;
  if (!inputs.video || !inputs.face)
    throw new RenderError('processing_failed', 'Video Swap needs the inputs video and face.');
  const log = new StageLog();
  const checkpoint = (): void => signal.throwIfAborted();
  onProgress(0, 'look');
  const info = await media.probe(inputs.video, 'video', signal);
  const { video } = info;
  const sampled = await log.builtin('look', 'facemesh', () =>
    sampleFaces({ path: inputs.video as string, info }, { media, finder, signal, checkpoint }),
  );
  if (!sampled.shown) throw noFace(sampled.left, []);
  onProgress(0, 'face');
  const picture = await raceAbort(signal, readFace(inputs.face));
  const { identity, hints } = await findIdentity(swap, picture, signal, log, others);
  const shorter = parameters.output_resolution_p;
  const size = outputSize(video, shorter ? Number(shorter) : undefined);
  const tracker = new FaceTracker(finder, video.color, checkpoint, recogniser);
  const memory = new FrameMemory();
  const outputPath = join(outputDir, 'output.mp4');
  const writer = await openLike(
    media,
    { path: inputs.video, ...info },
    { path: outputPath, ...size, signal, memory },
  );
  const onWritten = (frames: number): void =>
    onProgress(0.02 + 0.95 * Math.min(1, frames / Math.max(1, video.frameCount)), 'swap');
  const line = new FrameLine(
    { swap, threads, writer, signal, log, options, onWritten },
    identity,
    video.color,
  );
  const draw = (frames: readonly VideoFrame[]): Promise<void> =>
    line.add(
      frames,
      frames.map(({ index }) => tracker.facesIn(index)),
    );
  try {
    let waiting: VideoFrame[] = [];
    let run: VideoFrame[] = [];
    const advance = async (): Promise<void> => {
      const [before, now] = [waiting, run];
      [waiting, run] = [now, []];
      await log.builtin('tracker', 'facemesh', () => tracker.follow(now, before));
      await draw(before);
      tracker.forgetBefore((now[0]?.index ?? 0) - RUN);
    };
    for await (const frame of media.decodeVideo(inputs.video, info, { signal, size, memory })) {
      checkpoint();
      run.push(frame);
      if (run.length === RUN) await advance();
    }
    if (run.length > 0) await advance();
    const last = waiting.at(-1);
    if (last) tracker.end(last.index);
    await draw(waiting);
    await line.finish();
    const { left } = tracker;
    if (tracker.found === 0) throw noFace(left, hints);
    onProgress(0.97, 'write');
    const written = await log.own('write', () => writer.finish(video.endUs));
    onProgress(1, 'done');
    const { swapped, faces } = line.counts;
    return videoResult(outputPath, written, {
      stages: log.stages,
      details: {
        ...{ faces, frames_with_swap: swapped, ...size, ...log.makers },
        ...(others.length > 0 ? { face_pictures: others.length + 1 } : {}),
      },
      findings: {
        faces: faceCounts(faces, left),
        hints: [
          ...hints,
          ...framesUnchanged({ unchanged: written.frames - swapped, frames: written.frames }, VIDEO, 'face'),
        ],
        models: log.models,
      },
    });
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    line.close();
  }
}

function noFace(left: readonly LeftReason[], hints: readonly Hint[]): RenderError {
  const findings = { faces: faceCounts(0, left), hints: [...hints, ...hintsOfLeft(left, VIDEO)] };
  return new RenderError('face_not_detected', 'No face was found in the video (video_key).', { findings });
}

/** Looks at the face picture. */
export async function inspectVideoSwap(swap: FaceSwap, request: InspectRequest): Promise<Findings> {
  const { inputs, signal } = request;
  if (!inputs.face) throw new RenderError('processing_failed', 'Video Swap needs the input face.');
  const picture = await raceAbort(signal, readFace(inputs.face));
  return { hints: (await findIdentity(swap, picture, signal, new StageLog())).hints };
}
