/**
 * Reusable memory for the frames of one video. New memory for each frame would be cleared by the system and counted
 * by the garbage collector of every thread that it passes, which then runs every few frames. This memory is shared,
 * so frames move between threads without a copy.
 */
export class FrameMemory {
  readonly #free: Uint8Array[] = [];

  /** Returns memory for a frame; its content is undefined. */
  take(bytes: number): Uint8Array {
    const at = this.#free.findLastIndex(({ length }) => length === bytes);
    if (at < 0) return new Uint8Array(new SharedArrayBuffer(bytes));
    return this.#free.splice(at, 1)[0] as Uint8Array;
  }

  /** Returns an unused frame. Frames from elsewhere are left to the system. */
  give(frame: Uint8Array): void {
    if (frame.buffer instanceof SharedArrayBuffer && frame.length === frame.buffer.byteLength) {
      this.#free.push(frame);
    }
  }
}
