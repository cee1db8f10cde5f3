import { crc32 } from 'node:zlib';
import { RenderError } from '@semblance/engine-api/engine';
import type { VideoFrame } from '@semblance/media/types';

/** Decodes a video from its first frame on, or from one that is shown at about a time, microseconds, or before it. */
export type Decode = (fromUs?: number) => AsyncIterable<VideoFrame>;

/**
 * How long before a part its decoding is begun, microseconds. A frame that refers to no other need not be where a file
 * says that one is, and what follows it may still refer to frames before it; the more of them come first, the less.
 */
const LEADS_US = [300_000, 3_000_000, 15_000_000];

/**
 * Finds parts of a video again that was decoded before, without decoding all that comes before them. The frames are the
 * very same: each is compared, in time and content, with what it was. Where that does not come out, the part is decoded
 * from further back, at last from the first frame, and so are those after it.
 */
export class Rewind {
  readonly #decode: Decode;
  readonly #times: number[] = [];
  readonly #prints: number[] = [];
  #lead = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** Returns when each frame is shown, microseconds. */
  get times(): readonly number[] {
    return this.#times;
  }

  /** Takes note of the next frame, from the first on. */
  add({ ptsUs, data }: VideoFrame): void {
    this.#times.push(ptsUs);
    this.#prints.push(crc32(data));
  }

  /** The frames from one up to another, which is left out. */
  async part(start: number, end: number): Promise<VideoFrame[]> {
    for (;;) {
      const lead = LEADS_US[this.#lead] ?? Number.POSITIVE_INFINITY;
      const fromUs = (this.#times[start] as number) - lead;
      if (!(fromUs > 0)) return fromStart(this.#decode(), start, end);
      const found = await this.#found(fromUs, start, end);
      if (found) return found;
      this.#lead++;
    }
  }

  async #found(fromUs: number, start: number, end: number): Promise<VideoFrame[] | undefined> {
    const out: VideoFrame[] = [];
    try {
      for await (const frame of this.#decode(fromUs)) {
        const index = start + out.length;
        const wanted = this.#times[index] as number;
        if (out.length === 0 && frame.ptsUs < wanted) continue;
        if (frame.ptsUs !== wanted || crc32(frame.data) !== this.#prints[index]) return undefined;
        out.push({ ...frame, index });
        if (index === end - 1) return out;
      }
    } catch (error) {
      // The video was decoded before: what cannot be decoded now is so for want of what comes before it.
      if (!(error instanceof RenderError)) throw error;
    }
    return undefined;
  }
}

async function fromStart(
  frames: AsyncIterable<VideoFrame>,
  start: number,
  end: number,
): Promise<VideoFrame[]> {
  const out: VideoFrame[] = [];
  for await (const frame of frames) {
    if (frame.index >= start) out.push(frame);
    if (frame.index >= end - 1) break;
  }
  return out;
}
