import type { VideoFrame } from '@semblance/media/types';
import { type Decode, Rewind } from './rewind.ts';

/** A frame and the time at which it is shown, in microseconds from the start of the output. */
export interface ShownFrame {
  readonly frame: Pick<VideoFrame, 'width' | 'height' | 'data'>;
  readonly startUs: number;
}

export interface BounceOptions {
  /** Decodes the video; called as often as needed. */
  readonly decode: Decode;
  /** End of the output, in microseconds. */
  readonly untilUs: number;
  /** Default time that a frame is shown, in microseconds. */
  readonly frameUs: number;
  /** End of the last frame of the video, in microseconds; a file may say that it is the frame's beginning. */
  readonly endUs: number;
  /** Number of frames that may be held in memory. */
  readonly held: number;
}

/** Time between two pictures of a standing frame, in microseconds; the mouth in it moves. */
const STILL_US = 40_000;
const LEAST_STEP_US = 16_000;

/**
 * Yields the frames of a video for the length of the sound: cut at its end, or played forth and back repeatedly,
 * which leaves no jump. A video with at most `held` frames is decoded twice in all. Of a longer one, parts are
 * decoded again going backwards, so that only one part is in memory. While the last frame stands, it is yielded
 * again and again.
 */
export async function* bounce(options: BounceOptions): AsyncGenerator<ShownFrame> {
  const { decode, untilUs, frameUs, endUs, held } = options;
  const rewind = new Rewind(decode);
  const { times } = rewind;
  let first: VideoFrame | undefined;
  for await (const frame of decode()) {
    if (frame.ptsUs >= untilUs) return;
    rewind.add(frame);
    // The receiver may draw on its frames, and the first frame may be the only one.
    first ??= copied(frame);
    yield { frame, startUs: frame.ptsUs };
  }
  if (!first) return;
  const last = times.length - 1;
  const time = (i: number): number => times[i] as number;
  if (last === 0) {
    // A file may say that its only frame has no length.
    const step = Math.max(LEAST_STEP_US, Math.min(frameUs, STILL_US));
    for (let at = time(0) + step; at < untilUs; at += step) yield { frame: copied(first), startUs: at };
    return;
  }
  const lastUs = endUs > time(last) ? endUs - time(last) : frameUs;
  const step = Math.max(LEAST_STEP_US, Math.min(frameUs, (time(last) - time(0)) / last));
  // A video that fits into memory is decoded once more, not for every turn.
  const whole = last < held ? await rewind.part(0, last + 1) : undefined;
  // The rest of the time is added to the last picture, unless it is long enough for another one.
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
