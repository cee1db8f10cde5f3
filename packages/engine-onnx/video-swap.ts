import { join } from 'node:path';
import { raceAbort } from '@semblance/common/async/abort';
import {
  type InspectRequest,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import { faceCounts } from '@semblance/engine-builtin/findings/face-counts';
import { framesUnchanged, hintsOfLeft } from '@semblance/engine-builtin/findings/hints';
import { videoResult } from '@semblance/engine-builtin/video-result';
import { FaceTracker } from '@semblance/engine-builtin/video-swap/tracker';
import { openLike } from '@semblance/media/open-like';
import { outputSize } from '@semblance/media/size';
import type { Media, VideoFrame } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { readFace } from '@semblance/vision/image/picture-file';
import type { Point } from '@semblance/vision/picture';
import { fiveOf, placedAt } from './face-places.ts';
import type { FaceSwap, Identity } from './face-swap.ts';
import { findIdentity } from './source-identity.ts';
import { StageLog } from './stages/models.ts';
import { SteadyPoints } from './steady-points.ts';
import { editAround, partAround } from './vision/frame-edit.ts';

/** Number of frames tracked at a time, as the tracker requires. */
const RUN = 10;
/** Frames processed at once; their runs of one model are combined where its contract has a batch. */
const AT_ONCE = 5;

const VIDEO = { role: 'video', name: 'video' };

export interface VideoParts {
  readonly swap: FaceSwap;
  readonly finder: FaceFinder;
  readonly media: Media;
}

export interface VideoSwapParts extends VideoParts {
  /**
   * Recognises people after a cut. It is not the owner's model, because the thresholds of `builtin` were measured
   * with this one.
   */
  readonly recogniser: () => Promise<FaceRecogniser>;
}

/**
 * Puts the face of a picture (`face`) onto the faces of a video (`video`): `builtin` tracks the faces, the models
 * swap.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function videoSwap(
  { swap, finder, media, recogniser }: VideoSwapParts,
  request: RenderRequest,
): Promise<RenderResult> {
  const { inputs, parameters, outputDir, signal, onProgress } = request;
  if (!inputs.video || !inputs.face)
    throw new RenderError('processing_failed', 'Video Swap needs the inputs video and face.');
  const log = new StageLog();
  const checkpoint = (): void => signal.throwIfAborted();
  onProgress(0, 'face');
  const picture = await raceAbort(signal, readFace(inputs.face));
  const { identity, hints } = await findIdentity(swap, picture, signal, log);
  const info = await media.probe(inputs.video, 'video', signal);
  const { video } = info;
  const shorter = parameters.output_resolution_p;
  const size = outputSize(video, shorter ? Number(shorter) : undefined);
  const tracker = new FaceTracker(finder, video.color, checkpoint, recogniser);
  const outputPath = join(outputDir, 'output.mp4');
  const writer = await openLike(
    media,
    { path: inputs.video, ...info },
    { path: outputPath, ...size, signal },
  );
  const steady = new SteadyPoints();
  const counts = { frames: 0, swapped: 0, faces: 0 };
  const draw = async (frames: readonly VideoFrame[]): Promise<void> => {
    for (let from = 0; from < frames.length; from += AT_ONCE) {
      checkpoint();
      const part = frames.slice(from, from + AT_ONCE);
      const faces = part.map(({ index }) => tracker.facesIn(index));
      const five = await steadyFive(swap, part, faces, video.color, { steady, signal, log });
      const work = { identity, signal, log, counts };
      await Promise.all(
        part.map((frame, i) =>
          drawFrame(swap, frame, video.color, faces[i] ?? [], { ...work, five: five[i] ?? [] }),
        ),
      );
      for (const frame of part) {
        await log.own('write', () => writer.write(frame));
        onProgress(0.02 + 0.95 * Math.min(1, ++counts.frames / Math.max(1, video.frameCount)), 'swap');
      }
    }
  };
  try {
    let waiting: VideoFrame[] = [];
    let run: VideoFrame[] = [];
    const advance = async (): Promise<void> => {
      const [before, now] = [waiting, run];
      [waiting, run] = [now, []];
      await log.builtin('tracker', 'facemesh', () => tracker.follow(now, before));
      await draw(before);
      tracker.forgetBefore((now[0]?.index ?? 0) - RUN);
      steady.forgetBefore((now[0]?.index ?? 0) - 2 * RUN);
    };
    for await (const frame of media.decodeVideo(inputs.video, info, { signal, size })) {
      checkpoint();
      run.push(frame);
      if (run.length === RUN) await advance();
    }
    if (run.length > 0) await advance();
    const last = waiting.at(-1);
    if (last) tracker.end(last.index);
    await draw(waiting);
    const { left } = tracker;
    if (tracker.found === 0) {
      const findings = { faces: faceCounts(0, left), hints: [...hints, ...hintsOfLeft(left, VIDEO)] };
      const message = 'No face was found in the video (video_key).';
      throw new RenderError('face_not_detected', message, { findings });
    }
    onProgress(0.97, 'write');
    const written = await log.own('write', () => writer.finish(video.endUs));
    onProgress(1, 'done');
    const { swapped, faces } = counts;
    return videoResult(outputPath, written, {
      stages: log.stages,
      details: { faces, frames_with_swap: swapped, ...size, ...log.makers },
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
  }
}

/** Looks at the face picture. */
export async function inspectVideoSwap(swap: FaceSwap, request: InspectRequest): Promise<Findings> {
  const { inputs, signal } = request;
  if (!inputs.face) throw new RenderError('processing_failed', 'Video Swap needs the input face.');
  const picture = await raceAbort(signal, readFace(inputs.face));
  return { hints: (await findIdentity(swap, picture, signal, new StageLog())).hints };
}

type Faces = ReturnType<FaceTracker['facesIn']>;
type Colors = Parameters<typeof editAround>[2];

/**
 * Returns the five points of the faces of some frames, in pixels of the frame: those of the landmark model, steadied
 * over time.
 */
async function steadyFive(
  { places }: FaceSwap,
  frames: readonly VideoFrame[],
  faces: readonly Faces[],
  colors: Colors,
  work: { readonly steady: SteadyPoints; readonly signal: AbortSignal; readonly log: StageLog },
): Promise<readonly (readonly (readonly Point[])[])[]> {
  const { steady, signal, log } = work;
  if (!places.refines) return faces.map((seen) => seen.map(({ face }) => fiveOf(face)));
  const refined = await Promise.all(
    frames.map((frame, i) =>
      Promise.all(
        (faces[i] ?? []).map(async ({ face }) => {
          const part = partAround(frame, face, colors);
          if (!part) return undefined;
          const five = await places.refine(part.picture, part.face, signal, log);
          return five?.map(({ x, y }) => ({ x: x + part.rect.x, y: y + part.rect.y }));
        }),
      ),
    ),
  );
  // The frames are steadied in their order, each after the one before.
  return faces.map((seen, i) =>
    seen.map(({ track, face }, k) =>
      steady.of(track, (frames[i] as VideoFrame).index, face, refined[i]?.[k]),
    ),
  );
}

async function drawFrame(
  swap: FaceSwap,
  frame: VideoFrame,
  colors: Colors,
  faces: Faces,
  work: {
    readonly five: readonly (readonly Point[])[];
    readonly identity: Identity;
    readonly signal: AbortSignal;
    readonly log: StageLog;
    readonly counts: { swapped: number; faces: number };
  },
): Promise<void> {
  const { five, identity, signal, log, counts } = work;
  for (const [i, { face, opacity }] of faces.entries()) {
    await editAround(frame, face, colors, async (picture, mesh, { x: left, y: top }) => {
      const points = (five[i] as readonly Point[]).map(({ x, y }) => ({ x: x - left, y: y - top }));
      await swap.swapFaces(picture, [{ ...placedAt(mesh, points), opacity }], identity, signal, log);
    });
  }
  if (faces.length > 0) counts.swapped++;
  counts.faces = Math.max(counts.faces, faces.length);
}
