import { crc32 } from 'node:zlib';
import { RenderError } from '@semblance/engine-api/engine';
import type { VideoFrame } from '@semblance/media/types';

/** Decodes a video from its first frame, or from a frame at or before a time in microseconds. */
export type Decode = (fromUs?: number) => AsyncIterable<VideoFrame>;

/**
 * Lead times before a part at which decoding begins, in microseconds. A seek point of the file may not be an
 * independent frame, and later frames may refer to earlier ones; a longer lead makes this less likely.
 */
const LEADS_US = [300_000, 3_000_000, 15_000_000];

/**
 * Decodes parts of a video again without decoding everything before them. Each frame is compared in time and
 * content with the first decoding. When it differs, the part and all later ones are decoded from further back, at
 * last from the first frame.
 */
export class Rewind {
  readonly #decode: Decode;
  readonly #times: number[] = [];
  readonly #prints: number[] = [];
  #lead = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** Display time of each frame, in microseconds. */
  get times(): readonly number[] {
    return this.#times;
  }

  /** Records the next frame, starting with the first. */
  add({ ptsUs, data }: VideoFrame): void {
    this.#times.push(ptsUs);
    this.#prints.push(crc32(data));
  }

  /** Returns the frames from `start` up to but not including `end`. */
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
      // The whole video was decoded before, so a decoding error now means that earlier frames are missing.
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
