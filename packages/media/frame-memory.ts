/**
 * Memory for the frames of one video, used again and again. Memory taken anew for each frame is cleared by the system
 * and counted by the garbage collector of every thread that it goes through, which then runs every few frames. This
 * memory is shared between threads, so frames go from one to another without a copy.
 */
export class FrameMemory {
  readonly #free: Uint8Array[] = [];

  /** Room for a frame; what it holds is undefined. */
  take(bytes: number): Uint8Array {
    const at = this.#free.findLastIndex(({ length }) => length === bytes);
    if (at < 0) return new Uint8Array(new SharedArrayBuffer(bytes));
    return this.#free.splice(at, 1)[0] as Uint8Array;
  }

  /** Gives back a frame that nobody reads any more. Frames that did not come from here are left to the system. */
  give(frame: Uint8Array): void {
    if (frame.buffer instanceof SharedArrayBuffer && frame.length === frame.buffer.byteLength) {
      this.#free.push(frame);
    }
  }
}
