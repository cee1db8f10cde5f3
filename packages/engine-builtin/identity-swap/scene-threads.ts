import type { VideoFrame, VideoWriter } from '@semblance/media/types';
import type { Person } from '@semblance/vision/person';
import type { Plane } from '@semblance/vision/plane/plane';
import { FrameThreads } from '../pool/frame-threads.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import type { Character } from './character.ts';
import type { SceneAnswer, SceneSource, SceneWork } from './scene-protocol.ts';

let shared: SceneThreads | undefined;

/** Returns the thread that draws videos; each rendering thread makes one. */
export function sceneThreads(): SceneThreads {
  shared ??= new SceneThreads();
  return shared;
}

/** A single thread, because each drawn frame depends on the frames before and after it. */
export class SceneThreads extends FrameThreads<SceneSource, SceneWork, SceneAnswer> {
  constructor() {
    super(new URL('./scene-thread.ts', import.meta.url), 1);
  }
}

/** Largest number of frames on their way to the thread and back. */
const UNDER_WAY = 3;

/** A video that a separate thread draws: takes its frames in order and writes them as they are drawn. */
export class SceneVideo {
  readonly #threads: SceneThreads;
  readonly #writer: Pick<VideoWriter, 'write'>;
  readonly #signal: AbortSignal;
  readonly #flag = new Int32Array(new SharedArrayBuffer(4));
  readonly #render: number;
  readonly #frames = new Map<number, VideoFrame>();
  readonly #underWay: Promise<void>[] = [];
  readonly #onAbort = (): void => {
    Atomics.store(this.#flag, 0, 1);
    this.#stop?.(this.#signal.reason);
  };
  #stop: ((reason: unknown) => void) | undefined;
  readonly #aborted: Promise<never>;
  #written: Promise<void> = Promise.resolve();
  /** Number of written frames. */
  written = 0;
  /** Frames in which the character replaces the person, and in which its head follows a face. */
  drawn = 0;
  faces = 0;

  constructor(
    character: Character,
    video: { readonly width: number; readonly height: number; readonly color: Colors },
    parts: {
      readonly threads: SceneThreads;
      readonly writer: Pick<VideoWriter, 'write'>;
      readonly signal: AbortSignal;
    },
  ) {
    const { threads, writer, signal } = parts;
    [this.#threads, this.#writer, this.#signal] = [threads, writer, signal];
    this.#aborted = new Promise((_, reject) => {
      this.#stop = reject;
    });
    this.#aborted.catch(() => undefined);
    signal.addEventListener('abort', this.#onAbort, { once: true });
    const { width, height, color } = video;
    const source = { character: sharedCharacter(character), width, height, color };
    this.#render = threads.begin({ ...source, cancelled: this.#flag.buffer as SharedArrayBuffer });
  }

  /** Takes the next frame, whose memory is shared. Waits while too many frames are under way. */
  async add(
    frame: VideoFrame,
    person: Person | undefined,
    face?: Float32Array | undefined,
    cover?: Plane | undefined,
  ): Promise<void> {
    if (!(frame.data.buffer instanceof SharedArrayBuffer))
      throw new TypeError('a frame that only this thread can see');
    this.#frames.set(frame.index, frame);
    this.#ask({ type: 'add', frame, person, face, cover });
    if (this.#underWay.length >= UNDER_WAY) await this.#orAborted(this.#underWay.shift() as Promise<void>);
  }

  /** Ends a shot. */
  async cut(): Promise<void> {
    await this.finish();
    this.#ask({ type: 'cut' });
  }

  /** Draws all waiting frames and waits until they are written. */
  async finish(): Promise<void> {
    await this.#settled();
    while (this.#frames.size > 0) {
      const left = this.#frames.size;
      for (let k = 0; k < Math.min(UNDER_WAY, left); k++) this.#ask({ type: 'next' });
      await this.#settled();
      if (this.#frames.size === left)
        throw new Error('the thread that draws has lost the frames it was given');
    }
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    Atomics.store(this.#flag, 0, 1);
    this.#threads.end(this.#render);
  }

  async #settled(): Promise<void> {
    while (this.#underWay.length > 0) await this.#orAborted(this.#underWay.shift() as Promise<void>);
  }

  #ask(work: SceneWork): void {
    const answer = this.#threads.ask(this.#render, work);
    answer.catch(() => undefined);
    this.#written = this.#written.then(async () => this.#write(await answer));
    this.#written.catch(() => undefined);
    this.#underWay.push(this.#written);
  }

  async #write({ done, drawn, faces }: SceneAnswer): Promise<void> {
    [this.drawn, this.faces] = [drawn, faces];
    for (const index of done) {
      const frame = this.#frames.get(index) as VideoFrame;
      this.#frames.delete(index);
      await this.#writer.write(frame);
      this.written++;
    }
  }

  /** A busy thread must not delay the end of a cancelled render. */
  async #orAborted(work: Promise<void>): Promise<void> {
    this.#signal.throwIfAborted();
    await Promise.race([work, this.#aborted]);
  }
}

/** Returns the character with its pixels in shared memory; otherwise each message would copy them. */
function sharedCharacter(character: Character): Character {
  const { picture, alpha } = character;
  const data = picture.data instanceof Uint16Array ? sharedWords(picture.data) : sharedBytes(picture.data);
  return { ...character, picture: { ...picture, data }, ...(alpha ? { alpha: sharedBytes(alpha) } : {}) };
}

function sharedBytes(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(new SharedArrayBuffer(bytes.length));
  out.set(bytes);
  return out;
}

function sharedWords(words: Uint16Array): Uint16Array {
  const out = new Uint16Array(new SharedArrayBuffer(2 * words.length));
  out.set(words);
  return out;
}
