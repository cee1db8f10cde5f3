import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import type { FrameSwaps } from './frame-swaps.ts';
import { LiveFaces } from './live-faces.ts';
import { encodePicture } from './picture-codec.ts';
import { PICTURE_MARK } from './picture-mark.ts';
import { PictureReader } from './picture-reader.ts';
import { toFrame, writeBack } from './planes.ts';
import type { TransformedPicture } from './types.ts';

/** Least shorter side, in pixels, of a picture that can show a face to swap. */
const SMALLEST_SIDE = 64;

export interface PictureStreamOptions {
  readonly finder: FaceFinder;
  readonly recogniser: () => Promise<FaceRecogniser>;
  /** Draws the new face, until `close`; undefined: the caller's own face stays. */
  readonly swaps: FrameSwaps | undefined;
}

/** One stream inside its thread. */
export class PictureStream {
  readonly #reader = new PictureReader();
  readonly #faces: LiveFaces;
  #swaps: FrameSwaps | undefined;
  /** Buffers for frames of the present size, and for their content before a swap is drawn. */
  #frame = { width: 0, height: 0, data: new Uint8Array(0) };
  #before = new Uint8Array(0);
  /** Returns the time by the clock of the arriving pictures. */
  #nowMs = () => 0;
  /** Remaining work on the picture before. */
  #afterwards = Promise.resolve();

  constructor({ finder, recogniser, swaps }: PictureStreamOptions) {
    this.#faces = new LiveFaces(finder, recogniser);
    this.#swaps = swaps;
  }

  /**
   * @param ms arrival time of the picture
   * @throws LiveVideoError `bad_frame`; once, the error of {@link finish}
   */
  async transform(picture: Uint8Array, ms: number): Promise<TransformedPicture> {
    const begunMs = performance.now();
    this.#nowMs = () => ms + performance.now() - begunMs;
    const afterwards = this.#afterwards;
    this.#afterwards = Promise.resolve();
    await afterwards;
    try {
      return await this.#transform(picture, ms);
    } finally {
      this.#faces.workedUntil(this.#nowMs());
    }
  }

  /**
   * Must be called when the last picture is on its way to the caller. It does the work that the picture did not
   * depend on, in the time in which most streams wait for the next picture; that picture waits for it.
   */
  finish(): void {
    const nowMs = this.#nowMs;
    this.#afterwards = this.#faces
      .lookForOthers({ ...this.#frame, data: this.#before })
      .then(() => this.#faces.workedUntil(nowMs()));
    // The next picture fails with it.
    this.#afterwards.catch(() => undefined);
  }

  /**
   * Draws another face from the next picture on. The faces in view stay followed.
   * @param prepare returns what draws it, as in the options; when it fails, everything stays as it was
   */
  async change(prepare: () => Promise<FrameSwaps | undefined>): Promise<void> {
    // The same networks look for further faces. The next picture meets the error.
    await this.#afterwards.catch(() => undefined);
    try {
      const swaps = await prepare();
      this.#swaps?.close();
      this.#swaps = swaps;
    } finally {
      this.#faces.workedUntil(this.#nowMs());
    }
  }

  async #transform(picture: Uint8Array, ms: number): Promise<TransformedPicture> {
    const pixels = await this.#reader.read(picture);
    const { width, height, data, turned } = pixels;
    const untouched = async (faces: number): Promise<TransformedPicture> => {
      // Pictures beside swaps, which are upright, must be upright too.
      return { picture: turned ? await encodePicture(pixels) : picture, faces, swapped: false };
    };
    if (!this.#swaps || Math.min(width, height) < SMALLEST_SIDE) return untouched(0);
    const frame = this.#room(width & ~1, height & ~1);
    toFrame(data, width, frame);
    this.#before.set(frame.data);
    const placed = await this.#faces.follow(frame, ms);
    if (placed.length === 0) return untouched(0);
    for (const rect of await this.#swaps.draw(frame, placed, ms)) {
      writeBack(data, width, frame, this.#before, rect);
    }
    return { picture: await encodePicture(pixels, PICTURE_MARK), faces: placed.length, swapped: true };
  }

  async close(): Promise<void> {
    await this.#afterwards.catch(() => undefined);
    this.#swaps?.close();
    await this.#reader.close();
  }

  #room(width: number, height: number) {
    if (this.#frame.width !== width || this.#frame.height !== height) {
      const bytes = (width * height * 3) / 2;
      this.#frame = { width, height, data: new Uint8Array(bytes) };
      this.#before = new Uint8Array(bytes);
    }
    return this.#frame;
  }
}
