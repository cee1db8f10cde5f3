import { RenderError } from '@semblance/engine-api/engine';
import { FrameThreads, type ThreadData } from '@semblance/engine-builtin/pool/frame-threads';
import type { Face } from '@semblance/vision/face-mesh';
import type { Point } from '@semblance/vision/picture';
import type { Identity } from '../face-swap.ts';
import type { StageLog } from '../stages/models.ts';
import type { FrameAnswer, FrameDone, FrameFace, FrameSource, FrameWork, WorkFrame } from './protocol.ts';

/**
 * Threads that swap faces in the frames of videos, so that the thread that tracks, and gives and takes the tensors,
 * draws nothing. Their models run in the pool of the thread that makes them.
 */
export class SwapThreads extends FrameThreads<FrameSource, FrameWork, FrameAnswer> {
  /**
   * @param data returns what one more thread needs; see `PoolShare`
   * @param count default: as many as `builtin` has
   */
  constructor(data: () => ThreadData, count?: number) {
    super(new URL('./swap-thread.ts', import.meta.url), count, data);
  }

  /** @returns the number by which the threads know this video */
  beginVideo(
    { sources, ...identity }: Identity,
    colors: FrameSource['colors'],
    options: FrameSource['options'],
  ): number {
    const { picture } = identity;
    return this.begin({
      colors,
      options,
      identity: { ...identity, picture: { ...picture, data: shared(picture.data) } },
      sources: [...sources].map(([{ model }, form]) => [model.name, form] as const),
    });
  }

  /**
   * Returns the five points of faces in a frame, as the landmark model finds them; undefined where it is not certain.
   * @throws RenderError, EngineInterruptedError when the thread ends
   */
  async refine(
    video: number,
    frame: WorkFrame,
    faces: readonly Face[],
    log: StageLog,
  ): Promise<readonly (readonly Point[] | undefined)[]> {
    const { five = [] } = await this.#asked(video, { type: 'refine', frame: checked(frame), faces }, log);
    return five;
  }

  /**
   * Draws into the frame itself.
   * @throws RenderError, EngineInterruptedError when the thread ends
   */
  async draw(video: number, frame: WorkFrame, faces: readonly FrameFace[], log: StageLog): Promise<void> {
    await this.#asked(video, { type: 'draw', frame: checked(frame), faces }, log);
  }

  async #asked(video: number, work: FrameWork, log: StageLog): Promise<FrameDone> {
    const answer = await this.ask(video, work);
    if ('report' in answer) {
      log.add(answer.report);
      return answer;
    }
    throw answer.code ? new RenderError(answer.code, answer.fault) : new Error(answer.fault);
  }
}

/** Returns a frame without what a thread does not need. @throws TypeError when only this thread sees its memory */
function checked({ width, height, data }: WorkFrame): WorkFrame {
  if (!(data.buffer instanceof SharedArrayBuffer))
    throw new TypeError('a frame that only this thread can see');
  return { width, height, data };
}

/** Returns a copy that all threads see, so that none copies it again. */
function shared(data: Uint8Array | Uint16Array): Uint8Array | Uint16Array {
  const buffer = new SharedArrayBuffer(data.byteLength);
  const copy = data instanceof Uint16Array ? new Uint16Array(buffer) : new Uint8Array(buffer);
  copy.set(data);
  return copy;
}
