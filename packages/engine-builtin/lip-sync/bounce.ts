import type { VideoFrame } from '@semblance/media/types';
import { type Decode, Rewind } from './rewind.ts';

/** A frame and when it is shown, microseconds from the start of the output. */
export interface ShownFrame {
  readonly frame: Pick<VideoFrame, 'width' | 'height' | 'data'>;
  readonly startUs: number;
}

export interface BounceOptions {
  /** Decodes the video, as often as it is asked. */
  readonly decode: Decode;
  /** Frames of this many microseconds are made; the output ends there. */
  readonly untilUs: number;
  /** How long a frame is shown where nothing else says so, microseconds. */
  readonly frameUs: number;
  /**
   * States when the last frame of the video stops being shown, microseconds. Default: `frameUs` after its beginning.
   */
  readonly endUs?: number | undefined;
  /** Frames that may be held in memory. */
  readonly held: number;
}

/** Times between two pictures of a frame that stands, microseconds: the mouth in it moves. */
const STILL_US = 40_000;
const LEAST_STEP_US = 16_000;

/**
 * The frames of a video for as long as the sound goes on: cut where that ends, or played forth and back again and
 * again, which leaves no jump. A video of no more frames than may be held is decoded twice in all. Of a longer one,
 * parts are found again going back, so that no more than one part is held. While the last frame stands, it is given
 * again and again.
 */
export async function* bounce(options: BounceOptions): AsyncGenerator<ShownFrame> {
  const { decode, untilUs, frameUs, endUs = 0, held } = options;
  const rewind = new Rewind(decode);
  const { times } = rewind;
  let first: VideoFrame | undefined;
  for await (const frame of decode()) {
    if (frame.ptsUs >= untilUs) return;
    rewind.add(frame);
    // The receiver may draw on what it is given; the first frame may be all there is.
    first ??= copied(frame);
    yield { frame, startUs: frame.ptsUs };
  }
  if (!first) return;
  const last = times.length - 1;
  const time = (i: number): number => times[i] as number;
  if (last === 0) {
    // A file may say that its only frame is over at once.
    const step = Math.max(LEAST_STEP_US, Math.min(frameUs, STILL_US));
    for (let at = time(0) + step; at < untilUs; at += step) yield { frame: copied(first), startUs: at };
    return;
  }
  const lastUs = endUs > time(last) ? endUs - time(last) : frameUs;
  const step = Math.max(LEAST_STEP_US, Math.min(frameUs, (time(last) - time(0)) / last));
  // A video that can be held as a whole is decoded once more, and not for every turn.
  const whole = last < held ? await rewind.part(0, last + 1) : undefined;
  // What is left over of the time is added to the last picture, unless it is long enough for one more.
  const repeats = Math.max(0, Math.ceil(lastUs / step - 1.5));
  const standing = repeats > 0 ? (whole?.[last] ?? (await rewind.part(last, last + 1))[0]) : undefined;
  const stand = function* (fromUs: number): Generator<ShownFrame> {
    for (let i = 1; standing && i <= repeats && fromUs + i * step < untilUs; i++)
      yield { frame: copied(standing), startUs: fromUs + i * step };
  };
  yield* stand(time(last));
  let turnUs = time(last) + lastUs;
  for (;;) {
    for (let end = last; end > 0; ) {
      const start = whole ? 0 : Math.max(0, end - held);
      const part = whole ?? (await rewind.part(start, end));
      for (let i = end - 1; i >= start; i--) {
        const startUs = turnUs + time(last) - time(i + 1);
        if (startUs >= untilUs) return;
        const frame = part[i - start] as VideoFrame;
        yield { frame: whole ? copied(frame) : frame, startUs };
      }
      end = start;
    }
    turnUs += time(last) - time(0);
    for await (const frame of whole ?? decode()) {
      if (frame.index === 0) continue;
      const startUs = turnUs + time(frame.index) - time(1);
      if (startUs >= untilUs) return;
      yield { frame: whole ? copied(frame) : frame, startUs };
    }
    turnUs += time(last) - time(1);
    yield* stand(turnUs);
    turnUs += lastUs;
  }
}

const copied = (frame: VideoFrame): VideoFrame => ({ ...frame, data: frame.data.slice() });
