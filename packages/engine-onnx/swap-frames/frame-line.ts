import { raceAbort } from '@semblance/common/async/abort';
import type { RenderOptions } from '@semblance/engine-api/option';
import type { PlacedFace } from '@semblance/engine-builtin/video-swap/track';
import type { VideoFrame, VideoWriter } from '@semblance/media/types';
import type { Point } from '@semblance/vision/picture';
import { fiveOf } from '../face-places.ts';
import type { FaceSwap, Identity } from '../face-swap.ts';
import type { StageLog } from '../stages/models.ts';
import { SteadyPoints } from '../steady-points.ts';
import type { SwapThreads } from './swap-threads.ts';

/** Number of frames tracked at a time, as the tracker requires. */
export const RUN = 10;
/**
 * Frames processed at once, while the next are tracked; their runs of one model are combined where its contract has a
 * batch.
 */
const AT_ONCE = 8;

type Faces = readonly Pick<PlacedFace, 'track' | 'face' | 'opacity'>[];

/** The frames of a video on their way through the threads and into the output, in order. */
export class FrameLine {
  readonly #parts: FrameLineParts;
  readonly #video: number;
  readonly #steady = new SteadyPoints();
  readonly #drawing: Drawing[] = [];
  readonly counts = { frames: 0, swapped: 0, faces: 0 };

  constructor(parts: FrameLineParts, identity: Identity, colors: Colors) {
    this.#parts = parts;
    this.#video = parts.threads.beginVideo(identity, colors, parts.options);
  }

  /** Gives frames to the threads, and writes those that are done when there are too many. */
  async add(frames: readonly VideoFrame[], faces: readonly Faces[]): Promise<void> {
    const { threads, log } = this.#parts;
    const five = await this.#fiveIn(frames, faces);
    for (const [i, frame] of frames.entries()) {
      await this.#write(AT_ONCE - 1);
      const seen = (faces[i] ?? []).map(({ face, opacity }, k) => ({
        face,
        opacity,
        five: five[i]?.[k] ?? fiveOf(face),
      }));
      const drawn = seen.length > 0 ? threads.draw(this.#video, frame, seen, log) : Promise.resolve();
      // It is awaited when its turn to be written comes.
      drawn.catch(() => {});
      this.#drawing.push({ frame, drawn });
      if (seen.length > 0) this.counts.swapped++;
      this.counts.faces = Math.max(this.counts.faces, seen.length);
    }
    this.#steady.forgetBefore((frames.at(-1)?.index ?? 0) - 2 * RUN);
  }

  /** Writes what is left. */
  finish(): Promise<void> {
    return this.#write(0);
  }

  /** Ends the work of the threads. */
  close(): void {
    this.#parts.threads.end(this.#video);
  }

  /** Writes the first frames until at most this many are being drawn. */
  async #write(most: number): Promise<void> {
    const { writer, signal, log, onWritten } = this.#parts;
    while (this.#drawing.length > most) {
      const { frame, drawn } = this.#drawing[0] as Drawing;
      await raceAbort(signal, drawn);
      this.#drawing.shift();
      await log.own('write', () => writer.write(frame));
      onWritten(++this.counts.frames);
    }
  }

  /**
   * Returns the five points of the faces of frames, in pixels of the frame: those of the landmark model, steadied over
   * time; none without such a model.
   */
  async #fiveIn(
    frames: readonly VideoFrame[],
    faces: readonly Faces[],
  ): Promise<readonly (readonly (readonly Point[])[])[]> {
    const { threads, swap, signal, log } = this.#parts;
    if (!swap.places.refines) return [];
    const refining = Promise.all(
      frames.map((frame, i) => {
        const seen = (faces[i] ?? []).map(({ face }) => face);
        return seen.length > 0 ? threads.refine(this.#video, frame, seen, log) : [];
      }),
    );
    const refined = await raceAbort(signal, refining);
    // The frames are steadied in their order, each after the one before.
    return faces.map((seen, i) =>
      seen.map(({ track, face }, k) =>
        this.#steady.of(track, (frames[i] as VideoFrame).index, face, refined[i]?.[k]),
      ),
    );
  }
}

interface Drawing {
  readonly frame: VideoFrame;
  readonly drawn: Promise<void>;
}

interface FrameLineParts {
  readonly swap: FaceSwap;
  readonly threads: SwapThreads;
  readonly writer: Pick<VideoWriter, 'write'>;
  readonly signal: AbortSignal;
  readonly log: StageLog;
  /** Options of the render. */
  readonly options: RenderOptions | undefined;
  /** Called after each frame with the number of those that are written. */
  readonly onWritten: (frames: number) => void;
}

type Colors = Parameters<SwapThreads['beginVideo']>[1];
