import { join } from 'node:path';
import { raceAbort } from '@semblance/common/async/abort';
import {
  type InspectRequest,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { coveredOf } from '@semblance/engine-builtin/animate/covered';
import { framesUnchanged, stillFindings } from '@semblance/engine-builtin/findings/hints';
import { sampleFaces } from '@semblance/engine-builtin/first-look/samples';
import { FaceTracker } from '@semblance/engine-builtin/motion-transfer/face-tracker';
import {
  COLOR,
  DRIVER_SIDE,
  noDriver,
  readStill,
} from '@semblance/engine-builtin/motion-transfer/motion-transfer';
import { videoResult } from '@semblance/engine-builtin/video-result';
import { openLike } from '@semblance/media/open-like';
import { outputSize } from '@semblance/media/size';
import type { VideoFile, VideoFrame, VideoInfo } from '@semblance/media/types';
import { evenRect, regionToRgb } from '@semblance/media/yuv';
import { MIN_FACE } from '@semblance/vision/face-finder';
import { cropsOf, type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { type CropTransform, type RgbImage, squareCrop, toPicture } from '@semblance/vision/picture';
import type { FaceSwap } from './face-swap.ts';
import { StillCanvas } from './portrait/canvas.ts';
import { DrivenPose } from './portrait/driven-pose.ts';
import {
  driverSquare,
  type FaceSquare,
  meanSquare,
  type Openness,
  opennessOf,
  stillCrop,
} from './portrait/framing.ts';
import type { HeadMotion } from './portrait/keypoints.ts';
import { DRAWN_SIZE, LivePortrait, SEEN_SIZE, type SeenStill } from './portrait/live-portrait.ts';
import { type Models, StageLog } from './stages/models.ts';
import type { VideoParts } from './video-swap.ts';
import { outlineMask } from './vision/face-mask.ts';

/** Frames processed at once; their runs of one model are combined where its contract has a batch. */
const AT_ONCE = 8;
/** Progress, 0–1, when the driver's face is known in every frame. */
const TRACKED = 0.15;

const IMAGE = { role: 'image', name: 'character picture' };
const DRIVER = { role: 'motion_video', name: 'motion video' };

export interface MotionParts extends VideoParts {
  readonly models: Models;
}

interface Work extends MotionParts {
  readonly request: RenderRequest;
  readonly log: StageLog;
}

/**
 * Makes the person of a still (`image`) move like the main face of a driver (`motion_video`), drawn by
 * LivePortrait. As with `builtin`, the output has the still's picture and the driver's length, frame times and
 * sound.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function motionTransfer(parts: MotionParts, request: RenderRequest): Promise<RenderResult> {
  const { image, motion_video: driver } = request.inputs;
  if (!image || !driver)
    throw new RenderError('processing_failed', 'Motion Transfer needs the inputs image and motion_video.');
  const { signal, onProgress } = request;
  const { media, models } = parts;
  const work: Work = { ...parts, request, log: new StageLog() };
  const { log } = work;
  onProgress(0, 'look');
  const info = await media.probe(driver, 'video', signal);
  const { video } = info;
  const checkpoint = () => signal.throwIfAborted();
  const sampled = await log.builtin('look', 'facemesh', () =>
    sampleFaces({ path: driver, info }, { media, finder: parts.finder, signal, checkpoint }),
  );
  if (!sampled.shown) throw noDriver([]);
  onProgress(0, 'portrait');
  const portrait = new LivePortrait(models, log, signal);
  const { still, canvas, size, findings } = await prepare(work, portrait, image);
  const track = await follow(work, driver, info, findings);
  const outputPath = join(request.outputDir, 'output.mp4');
  const writer = await openLike(
    media,
    { path: driver, ...info },
    { path: outputPath, ...size, color: COLOR, signal },
  );
  try {
    const frames = media.decodeVideo(driver, info, { signal, size: outputSize(video, DRIVER_SIDE) });
    const animation = new Animation(work, { portrait, still, canvas, track, color: video.color });
    const waiting: { readonly ptsUs: number; readonly data: Promise<Uint8Array> }[] = [];
    let count = 0;
    const write = async (): Promise<void> => {
      const next = waiting.shift();
      if (!next) return;
      const data = await next.data;
      await log.own('write', () => writer.write({ ptsUs: next.ptsUs, data }));
      const share = Math.min(1, ++count / Math.max(1, track.frames.length));
      onProgress(TRACKED + (0.97 - TRACKED) * share, 'animate');
    };
    for await (const frame of frames) {
      signal.throwIfAborted();
      const data = animation.frame(frame);
      // The error reaches the caller that awaits the write, so it is ignored here.
      data.catch(() => undefined);
      waiting.push({ ptsUs: frame.ptsUs, data });
      if (waiting.length > AT_ONCE) await write();
    }
    while (waiting.length > 0) await write();
    onProgress(0.97, 'write');
    const written = await log.own('write', () => writer.finish(video.endUs));
    onProgress(1, 'done');
    return videoResult(outputPath, written, {
      stages: log.stages,
      details: { ...size, frames_without_face: track.unseen, ...log.makers },
      findings: {
        ...findings,
        hints: [
          ...findings.hints,
          ...framesUnchanged({ unchanged: track.unseen, frames: written.frames }, DRIVER, 'face'),
        ],
        models: log.models,
      },
    });
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

/** Looks at the still. */
export async function inspectMotionTransfer(swap: FaceSwap, request: InspectRequest): Promise<Findings> {
  const { image } = request.inputs;
  if (!image) throw new RenderError('processing_failed', 'Motion Transfer needs the input image.');
  return (await lookAtStill(swap, image, request.signal, new StageLog())).findings;
}

/** Finds the most prominent face of the still, and what is in front of it. */
async function lookAtStill(swap: FaceSwap, image: string, signal: AbortSignal, log: StageLog) {
  const picture = await raceAbort(signal, readStill(image));
  const { faces, left } = await swap.places.look(picture, signal, log);
  const seen = { faces: faces.map(({ mesh }) => mesh), left };
  const [face] = faces;
  if (!face) {
    const message = 'No face was found in the character picture (image_key).';
    throw new RenderError('face_not_detected', message, { findings: stillFindings(seen, IMAGE) });
  }
  const { mesh } = face;
  const cover = await swap.coverOf(picture, face, log);
  const covered = cover && mesh && coveredOf(cover, mesh);
  return {
    picture,
    face,
    findings: stillFindings(seen, IMAGE, { covered, bends: true, crops: cropsOf(picture) }),
  };
}

/** Finds the face of the still and shows it to the networks. */
async function prepare({ swap, request, log }: Work, portrait: LivePortrait, image: string) {
  const { signal } = request;
  const { picture, face, findings } = await lookAtStill(swap, image, signal, log);
  const { mesh } = face;
  const still = await portrait.seeStill(picture, stillCrop(face, SEEN_SIZE), mesh && opennessOf(mesh));
  const canvas = await log.own(
    'paste',
    () => new StillCanvas(picture, stillCrop(face, DRAWN_SIZE), DRAWN_SIZE, COLOR),
  );
  return { still, canvas, size: { width: picture.width, height: picture.height }, findings };
}

/** The driver's face in all of its frames. */
interface Track {
  /** The square to which all frames are cropped. */
  readonly square: FaceSquare;
  /** One entry per frame; undefined where the face is not visible. */
  readonly frames: readonly (Openness | undefined)[];
  readonly unseen: number;
}

/** Tracks the driver's face once through the whole video, because its crop is known only then. */
async function follow(
  { media, finder, request, log }: Work,
  driver: string,
  info: VideoFile,
  { hints }: Findings,
): Promise<Track> {
  const { signal, onProgress } = request;
  const tracker = new FaceTracker(finder, () => signal.throwIfAborted());
  const squares: FaceSquare[] = [];
  const frames: (Openness | undefined)[] = [];
  const { video } = info;
  const size = outputSize(video, DRIVER_SIDE);
  for await (const frame of media.decodeVideo(driver, info, { signal, size })) {
    signal.throwIfAborted();
    const face = await log.builtin('tracker', 'facemesh', () => tracker.track(frame));
    if (face) squares.push(driverSquare(face));
    frames.push(face && opennessOf(face));
    onProgress(0.02 + (TRACKED - 0.02) * Math.min(1, frames.length / Math.max(1, video.frameCount)), 'track');
  }
  if (squares.length === 0) throw noDriver(hints);
  return { square: meanSquare(squares), frames, unseen: frames.length - squares.length };
}

interface AnimationParts {
  readonly portrait: LivePortrait;
  readonly still: SeenStill;
  readonly canvas: StillCanvas;
  readonly track: Track;
  readonly color: VideoInfo['color'];
}

/** Makes output frames from driver frames, several at once. */
class Animation {
  readonly #work: Work;
  readonly #parts: AnimationParts;
  readonly #pose: DrivenPose;
  /** Settles when the frame before has its pose, because each pose depends on the one before. */
  #before: Promise<unknown> = Promise.resolve();

  constructor(work: Work, parts: AnimationParts) {
    this.#work = work;
    this.#parts = parts;
    this.#pose = new DrivenPose(parts.still.motion, parts.portrait.relative);
  }

  async frame(frame: VideoFrame): Promise<Uint8Array> {
    const { portrait, still, canvas, track } = this.#parts;
    const { log, request } = this.#work;
    const openness = track.frames[frame.index];
    const seen = openness && Promise.all([this.#see(frame), portrait.retarget(still, openness)]);
    const pose = this.#poseAfter(this.#before, seen, frame.ptsUs);
    this.#before = pose;
    const drawn = await portrait.draw(still, await pose);
    request.signal.throwIfAborted();
    const { part, crop } = await log.own('paste', () => canvas.paste(drawn));
    await this.#restore(part, crop, drawn);
    return log.own('paste', () => canvas.frame(part));
  }

  async #poseAfter(
    before: Promise<unknown>,
    seen: Promise<[HeadMotion, Float32Array | undefined]> | undefined,
    ptsUs: number,
  ): Promise<Float32Array<ArrayBuffer>> {
    const [[motion, offset]] = await Promise.all([seen ?? [undefined, undefined], before]);
    return this.#pose.next(motion, ptsUs, offset);
  }

  /** Returns the motion of the driver's head in a frame. */
  #see(frame: VideoFrame): Promise<HeadMotion> {
    const { portrait, track, color } = this.#parts;
    const { center, side } = track.square;
    const [x, y] = [center.x - side / 2, center.y - side / 2];
    const rect = evenRect({ x, y, width: side, height: side }, frame);
    const crop = squareCrop({ x: center.x - rect.x, y: center.y - rect.y }, side, 0, SEEN_SIZE);
    return portrait.seeMotion(regionToRgb(frame, rect, color), crop);
  }

  /** Restores the drawn face at its size in the output, if there is a model for it. */
  async #restore(part: Picture, crop: CropTransform, drawn: RgbImage): Promise<void> {
    const { models, finder, swap, log, request } = this.#work;
    const { signal } = request;
    if (!models.get('enhancer')) return;
    const { width, height, data } = drawn;
    const picture: Picture = { width, height, channels: 3, data: Uint8Array.from(data) };
    const [face] = await log.builtin('outline', 'facemesh', () =>
      finder.findUpright(picture, MIN_FACE, () => signal.throwIfAborted()),
    );
    if (!face) return;
    const mesh = outOfCrop(face, crop);
    const placed = await swap.places.place(part, mesh, signal, log);
    await swap.enhanceFaces(part, [placed], [outlineMask(mesh)], signal, log);
  }
}

/** Converts a face from crop to picture coordinates. */
function outOfCrop({ points, score }: Face, crop: CropTransform): Face {
  const moved = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 3) {
    const { x, y } = toPicture(crop, points[i] as number, points[i + 1] as number);
    moved.set([x, y, (points[i + 2] as number) * crop.scale], i);
  }
  return faceFromPoints(moved, score);
}
