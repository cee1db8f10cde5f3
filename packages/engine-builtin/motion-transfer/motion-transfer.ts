import { join } from 'node:path';
import { RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { openLike } from '@semblance/media/open-like';
import { outputSize } from '@semblance/media/size';
import type { ColorTags, Media, VideoFrame } from '@semblance/media/types';
import { readShown } from '@semblance/vision/image/picture-file';
import { drawThreads } from '../animate/draw-threads.ts';
import { lookAtStill } from '../animate/look.ts';
import { type Portrait, REST } from '../animate/portrait.ts';
import { PortraitVideo } from '../animate/portrait-video.ts';
import { preparePortrait } from '../animate/prepare.ts';
import { resized } from '../animate/resized.ts';
import { framesUnchanged } from '../findings/hints.ts';
import { sampleFaces } from '../first-look/samples.ts';
import { mappedFaces, onePersonOf } from '../people/mapping.ts';
import type { Inspector, Renderer, RenderTools } from '../renderer.ts';
import { StageTimes } from '../stage-times.ts';
import { videoResult } from '../video-result.ts';
import { DriverMotion } from './driver-motion.ts';
import { FaceTracker } from './face-tracker.ts';
import { type MouthScale, measureMouth } from './mouth-scale.ts';
import { Retargeter } from './retarget.ts';

/** Largest shorter side of the output, in pixels. */
const SHORTER_SIDE = 1080;
/** Largest shorter side, in pixels, at which a driver is decoded; it is never shown, so more pixels are useless. */
export const DRIVER_SIDE = 720;
/**
 * Number of frames from which the driver's rest is determined before the first one is drawn: a minute or two, which
 * is most clips as a whole. The beginning alone may be a smile, a blink or a word.
 */
const REST_FRAMES = 3000;
/** Share of the progress that the tracking makes. */
const TRACKED = 0.6;

const IMAGE = { role: 'image', name: 'character picture' };
const DRIVER = { role: 'motion_video', name: 'motion video' };

export const COLOR: ColorTags = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };

/** Animates the person of a still picture (`image`) with the head of a driver (`motion_video`). */
export const renderMotionTransfer: Renderer = async (work, tools) => {
  const { image, motion_video: driver } = work.inputs;
  if (!image || !driver) {
    throw new RenderError('processing_failed', 'Motion Transfer needs the inputs image and motion_video.');
  }
  const person = onePersonOf(work, tools);
  const job = { image, driver, outputDir: work.outputDir, ...(person && { person }) };
  return transferMotion(job, await tools.media(), tools);
};

/** Looks at the still. */
export const inspectMotionTransfer: Inspector = async ({ inputs: { image } }, tools) => {
  if (!image) throw new RenderError('processing_failed', 'Motion Transfer needs the input image.');
  return (await lookAtStill(await readStill(image), IMAGE, tools)).still;
};

/** Returns the refusal of a motion video without a face, or without the person who was named. */
export function noDriver(hints: readonly Hint[], named = false): RenderError {
  const message = named
    ? 'The person of face_id was not found in the motion video (motion_video_key).'
    : 'No face was found in the motion video (motion_video_key).';
  return new RenderError('face_not_detected', message, { findings: { hints } });
}

export interface MotionTransferJob {
  /** Path of the still picture. */
  readonly image: string;
  /** Path of the driving video. */
  readonly driver: string;
  readonly outputDir: string;
  /** Who drives; absent: the most prominent face. */
  readonly person?: NonNullable<ReturnType<typeof onePersonOf>>;
}

/** @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large` */
export async function transferMotion(
  job: MotionTransferJob,
  media: Media,
  tools: Pick<RenderTools, 'finder' | 'checkpoint' | 'signal' | 'onProgress'>,
): Promise<RenderResult> {
  const { finder, checkpoint, signal, onProgress } = tools;
  const times = new StageTimes();
  const { timed } = times;
  onProgress(0, 'look');
  const info = await media.probe(job.driver, 'video', signal);
  const { video } = info;
  const driven = { path: job.driver, info };
  const sampled = await timed('look', () => sampleFaces(driven, { media, finder, signal, checkpoint }));
  if (!sampled.shown) throw noDriver([]);
  onProgress(0, 'portrait');
  const { portrait, mouth, still } = await timed('portrait', async () => {
    const { picture, face, around, still } = await lookAtStill(await readStill(job.image), IMAGE, tools);
    const prepared = preparePortrait(picture, face, around);
    const mouth = await measureMouth(prepared, face, finder, checkpoint);
    return { portrait: prepared, mouth, still };
  });
  checkpoint();
  const outputPath = join(job.outputDir, 'output.mp4');
  const { width, height } = portrait;
  const writer = await openLike(
    media,
    { path: job.driver, ...info },
    { path: outputPath, width, height, color: COLOR, signal },
  );
  const done = { tracked: 0, drawn: 0 };
  const advance = (part: keyof typeof done, frames: number): void => {
    done[part] = Math.min(1, frames / Math.max(1, video.frameCount));
    onProgress(0.03 + 0.92 * (TRACKED * done.tracked + (1 - TRACKED) * done.drawn), 'animate');
  };
  const drawn = new PortraitVideo(portrait, { threads: drawThreads(), writer }, (frames) => {
    advance('drawn', frames);
  });
  try {
    const animation = new Animation({ portrait, mouth }, drawn, checkpoint);
    const tracker = new FaceTracker(finder, checkpoint, 'both-ways', job.person?.person);
    const size = outputSize(video, DRIVER_SIDE);
    const frames = media.decodeVideo(job.driver, info, { signal, size });
    for await (const frame of frames) {
      checkpoint();
      const face = await timed('track', () => tracker.track(frame));
      await timed('draw', () => animation.add(frame, face?.points));
      advance('tracked', frame.index + 1);
    }
    if (!animation.sawFace) throw noDriver(still.hints, job.person !== undefined);
    await timed('draw', () => animation.finish());
    onProgress(0.96, 'write');
    const written = await timed('write', () => writer.finish(video.endUs));
    onProgress(1, 'done');
    return videoResult(outputPath, written, {
      stages: times.stages,
      details: { width, height, frames_without_face: animation.unseen },
      findings: {
        ...still,
        ...(job.person && {
          mapped: mappedFaces(
            job.person.mapping,
            new Map([[job.person.id, written.frames - animation.unseen]]),
          ),
        }),
        hints: [
          ...still.hints,
          ...framesUnchanged({ unchanged: animation.unseen, frames: written.frames }, DRIVER, 'face'),
        ],
      },
    });
  } catch (error) {
    await writer.abort();
    throw error;
  } finally {
    drawn.close();
  }
}

/** Returns the still at the size of the output. */
export async function readStill(path: string): Promise<Picture> {
  const picture = await readShown(path, 'The character picture');
  return resized(picture, outputSize(picture, SHORTER_SIDE));
}

/** Applies the driver's motion to the portrait, in the order of its frames. */
class Animation {
  readonly #portrait: Portrait;
  readonly #mouth: MouthScale;
  readonly #video: PortraitVideo;
  readonly #waiting: { readonly ptsUs: number; readonly points: Float32Array | undefined }[] = [];
  readonly #checkpoint: () => void;
  #driver: { readonly motion: DriverMotion; readonly retargeter: Retargeter } | undefined;
  #seen = false;
  /** Number of frames without the driver's face. */
  unseen = 0;

  constructor(
    { portrait, mouth }: { portrait: Portrait; mouth: MouthScale },
    video: PortraitVideo,
    checkpoint: () => void,
  ) {
    this.#portrait = portrait;
    this.#mouth = mouth;
    this.#video = video;
    this.#checkpoint = checkpoint;
  }

  get sawFace(): boolean {
    return this.#seen;
  }

  /** Takes the next frame, and draws those that wait once enough is known of the driver's rest. */
  async add({ ptsUs }: VideoFrame, points: Float32Array | undefined): Promise<void> {
    if (points) this.#seen = true;
    else this.unseen++;
    this.#waiting.push({ ptsUs, points });
    if (this.#driver || this.#waiting.length >= REST_FRAMES) await this.#drawAll();
  }

  /** Draws the remaining frames and waits until all are written. */
  async finish(): Promise<void> {
    await this.#drawAll();
    await this.#video.finish();
  }

  async #drawAll(): Promise<void> {
    const seen = this.#waiting.flatMap(({ points }) => (points ? [points] : []));
    if (!this.#driver && seen.length > 0) {
      const motion = new DriverMotion(seen);
      this.#driver = { motion, retargeter: new Retargeter(this.#portrait, motion.neutral, this.#mouth) };
    }
    for (const { ptsUs, points } of this.#waiting.splice(0)) {
      this.#checkpoint();
      const motion = points && this.#driver?.motion.measure(points);
      await this.#video.add(this.#driver?.retargeter.pose(motion, ptsUs) ?? REST, ptsUs);
    }
  }
}
