import type { VideoWriter } from '@semblance/media/types';
import type { DrawThreads, SentFrame } from './draw-threads.ts';
import { type Portrait, type Pose, portraitData } from './portrait.ts';

/** Draws a portrait in a series of poses, spread over threads, and writes the frames in order. */
export class PortraitVideo {
  readonly #threads: DrawThreads;
  readonly #writer: Pick<VideoWriter, 'write'>;
  readonly #onFrame: (frames: number) => void;
  readonly #render: number;
  readonly #free: SentFrame[] = [];
  readonly #underWay: Promise<void>[] = [];
  #written: Promise<void> = Promise.resolve();
  #count = 0;

  /** @param onFrame called after each frame with the number of written frames */
  constructor(
    portrait: Portrait,
    parts: { readonly threads: DrawThreads; readonly writer: Pick<VideoWriter, 'write'> },
    onFrame: (frames: number) => void,
  ) {
    this.#threads = parts.threads;
    this.#writer = parts.writer;
    this.#onFrame = onFrame;
    this.#render = parts.threads.begin(portraitData(portrait));
  }

  /** Waits while too many frames are under way, to bound memory. */
  async add(pose: Pose, ptsUs: number): Promise<void> {
    const drawn = this.#threads.draw(this.#render, pose, this.#free.pop());
    // The error reaches the caller that waits for the writing; nobody listens here.
    drawn.catch(() => undefined);
    this.#written = this.#written.then(async () => {
      const data = await drawn;
      await this.#writer.write({ ptsUs, data });
      this.#free.push(data);
      this.#onFrame(++this.#count);
    });
    this.#written.catch(() => undefined);
    this.#underWay.push(this.#written);
    if (this.#underWay.length > this.#threads.count + 1) await this.#underWay.shift();
  }

  /** Waits until all frames are written. */
  async finish(): Promise<void> {
    await this.#written;
  }

  close(): void {
    this.#threads.end(this.#render);
  }
}
