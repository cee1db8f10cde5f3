import type { Picture } from '@semblance/engine-api/picture';
import { outputSize } from '@semblance/media/size';
import { regionToRgb } from '@semblance/media/yuv';
import type { RenderTools } from '../renderer.ts';

/** Most frames that are looked at, and the least time between two, in microseconds. */
const MOST_FRAMES = 48;
const LEAST_APART_US = 200_000;
/** Longest time without a sample, in microseconds. Where key frames lie further apart, every frame is decoded. */
const LONGEST_GAP_US = 12_000_000;
/** Time after which no further frame is looked at, in ms. */
const LOOKING_MS = 12_000;
/** Largest shorter side of the samples, in pixels. */
const SAMPLE_SIDE = 720;
/** Videos of this length, in microseconds, or shorter are decoded whole: their key frames may be too few. */
const SHORT_US = 20_000_000;

/** Yields frames from all over a video. What they cost is bounded whatever its length. */
export async function* sampledFrames(
  path: string,
  { media: open, signal, checkpoint }: Pick<RenderTools, 'media' | 'signal' | 'checkpoint'>,
): AsyncGenerator<{ readonly picture: Picture; readonly ptsUs: number }> {
  const media = await open();
  const info = await media.probe(path, 'video', signal);
  const { endUs, color } = info.video;
  const size = outputSize(info.video, SAMPLE_SIDE);
  const apartUs = Math.max(LEAST_APART_US, endUs / MOST_FRAMES);
  const until = performance.now() + LOOKING_MS;
  const seen: number[] = [];
  for (const keyFrames of endUs > SHORT_US ? [true, false] : [false]) {
    let [last, gap] = [0, 0];
    for await (const frame of media.decodeVideo(path, info, {
      signal,
      size,
      sample: { apartUs, keyFrames },
    })) {
      checkpoint();
      gap = Math.max(gap, frame.ptsUs - last);
      last = frame.ptsUs;
      // What the key frames showed is not looked at again.
      if (seen.some((at) => Math.abs(frame.ptsUs - at) < apartUs / 2)) continue;
      if (seen.length > 0 && performance.now() > until) return;
      seen.push(frame.ptsUs);
      const { width, height } = frame;
      yield { picture: regionToRgb(frame, { x: 0, y: 0, width, height }, color), ptsUs: frame.ptsUs };
    }
    if (seen.length > 0 && Math.max(gap, endUs - last) <= LONGEST_GAP_US) return;
  }
}
