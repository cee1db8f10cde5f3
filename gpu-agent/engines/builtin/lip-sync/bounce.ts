import type { VideoFrame } from '../../../media/types.ts';

/** A frame and when it is shown, microseconds from the start of the output. */
export interface ShownFrame {
  readonly frame: Pick<VideoFrame, 'width' | 'height' | 'data'>;
  readonly startUs: number;
}

export interface BounceOptions {
  /** Decodes the video from its first frame on, as often as it is asked. */
  readonly decode: () => AsyncIterable<VideoFrame>;
  /** Frames of this many microseconds are made; the output ends there. */
  readonly untilUs: number;
  /** How long a frame is shown that no other follows, microseconds. */
  readonly frameUs: number;
  /** Frames that may be held in memory. */
  readonly held: number;
}

/**
 * The frames of a video for as long as the sound goes on: cut where that ends, or played forth and back again and again,
 * which leaves no jump. Going back, parts of the video are decoded anew, so that no more than one part is held.
 */
export async function* bounce(options: BounceOptions): AsyncGenerator<ShownFrame> {
  const { decode, untilUs, frameUs, held } = options;
  const times: number[] = [];
  let latest: VideoFrame | undefined;
  for await (const frame of decode()) {
    if (frame.ptsUs >= untilUs) return;
    times.push(frame.ptsUs);
    latest = frame;
    // The receiver may draw on what it is given.
    yield { frame: { ...frame, data: frame.data.slice() }, startUs: frame.ptsUs };
  }
  if (!latest) return;
  const last = times.length - 1;
  let turnUs = (times[last] as number) + frameUs;
  if (last === 0) {
    for (; turnUs < untilUs; turnUs += frameUs)
      yield { frame: { ...latest, data: latest.data.slice() }, startUs: turnUs };
    return;
  }
  const time = (i: number): number => times[i] as number;
  for (;;) {
    for (let end = last; end > 0; ) {
      const start = Math.max(0, end - held);
      const part = await collect(decode(), start, end);
      for (let i = end - 1; i >= start; i--) {
        const startUs = turnUs + time(last) - time(i + 1);
        if (startUs >= untilUs) return;
        yield { frame: part[i - start] as VideoFrame, startUs };
      }
      end = start;
    }
    turnUs += time(last) - time(0);
    for await (const frame of decode()) {
      if (frame.index === 0) continue;
      const startUs = turnUs + time(frame.index) - time(1);
      if (startUs >= untilUs) return;
      yield { frame, startUs };
    }
    turnUs += time(last) - time(1) + frameUs;
  }
}

async function collect(frames: AsyncIterable<VideoFrame>, start: number, end: number): Promise<VideoFrame[]> {
  const out: VideoFrame[] = [];
  for await (const frame of frames) {
    if (frame.index >= start) out.push(frame);
    if (frame.index >= end - 1) break;
  }
  return out;
}
