/**
 * Reusable memory for the frames of one video. The system would clear new memory for each frame. The garbage
 * collector of every thread that a frame passes would count it, and then run every few frames. This memory is
 * shared, so frames move between threads without a copy.
 */
export class FrameMemory {
  readonly #free: Uint8Array[] = [];

  /** Returns memory for a frame; its content is undefined. */
  take(bytes: number): Uint8Array {
    const at = this.#free.findLastIndex(({ length }) => length === bytes);
    if (at < 0) return new Uint8Array(new SharedArrayBuffer(bytes));
    return this.#free.splice(at, 1)[0] as Uint8Array;
  }

  /** Takes an unused frame back. Frames from elsewhere are left to the system. */
  give(frame: Uint8Array): void {
    if (frame.buffer instanceof SharedArrayBuffer && frame.length === frame.buffer.byteLength) {
      this.#free.push(frame);
    }
  }
}
