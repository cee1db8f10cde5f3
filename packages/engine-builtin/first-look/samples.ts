import type { LeftReason } from '@semblance/engine-api/findings';
import { outputSize } from '@semblance/media/size';
import type { Media, VideoFile, VideoFrame } from '@semblance/media/types';
import type { FaceFinder, Seen } from '@semblance/vision/face-finder';
import { wholeFrame } from '../video-swap/frame-part.ts';

/** Least length of a video that is looked at first, in microseconds: the render of a shorter one costs little more. */
const LEAST_US = 5_000_000;
/** Time between two samples: the first, or less so that a short video has as many as the second. */
const APART_US = 5_000_000;
const LEAST_SAMPLES = 12;
/** Longest time without a sample. Where key frames lie further apart, every frame is decoded for the samples. */
const LONGEST_GAP_US = 12_000_000;
/** Largest shorter side of the samples, in pixels. */
const SAMPLE_SIDE = 720;
/**
 * Numbers of the samples in which small, turned and upside-down faces are looked for as well, which takes several times
 * as many runs of the detector. The first sample is often a title.
 */
const THOROUGH: readonly number[] = [1, 12, 48, 192];
/**
 * Smallest width of a face in the others, as a share of the shorter side. It is somewhat more than in the renders, so that
 * the detector does without its finest tiles.
 */
const SMALLEST_SHARE = 0.106;

export interface VideoToSample {
  readonly path: string;
  readonly info: VideoFile;
}

interface SampleTools {
  readonly media: Media;
  readonly signal: AbortSignal;
  readonly checkpoint: () => void;
}

/**
 * Looks at samples of a video, until one shows what is looked for. They are its key frames, with which every shot begins
 * in most files.
 * @param shows looks at a sample, which has its number among the samples
 * @returns whether one shows it; true for a video that is too short for samples, or of which none can be decoded
 */
export async function samplesShow(
  { path, info }: VideoToSample,
  { media, signal, checkpoint }: SampleTools,
  shows: (frame: VideoFrame) => Promise<boolean>,
): Promise<boolean> {
  const { endUs } = info.video;
  if (endUs < LEAST_US) return true;
  const apartUs = Math.min(APART_US, endUs / LEAST_SAMPLES);
  const size = outputSize(info.video, SAMPLE_SIDE);
  let frames = 0;
  for (const keyFrames of [true, false]) {
    let [last, gap] = [0, 0];
    const sample = { apartUs, keyFrames };
    for await (const frame of media.decodeVideo(path, info, { signal, size, sample })) {
      checkpoint();
      frames++;
      if (await shows(frame)) return true;
      gap = Math.max(gap, frame.ptsUs - last);
      last = frame.ptsUs;
    }
    if (frames > 0 && Math.max(gap, endUs - last) <= LONGEST_GAP_US) return false;
  }
  return frames === 0;
}

/** What samples show of faces. */
export interface SampledFaces {
  /** Whether one shows a face, or the face of a person that a render leaves alone. */
  readonly shown: boolean;
  /** Why faces were left alone, in the sample with most of them. */
  readonly left: readonly LeftReason[];
}

/** Looks for faces in samples of a video. */
export async function sampleFaces(
  video: VideoToSample,
  tools: SampleTools & { readonly finder: FaceFinder },
): Promise<SampledFaces> {
  const { finder, checkpoint } = tools;
  let left: readonly LeftReason[] = [];
  const isShown = (seen: Seen) => {
    if (seen.left.length > left.length) left = seen.left;
    return seen.faces.length > 0 || seen.left.some((reason) => reason !== 'not_a_person');
  };
  const shown = await samplesShow(video, tools, async (frame) => {
    const { picture } = wholeFrame(frame, video.info.video.color);
    if (THOROUGH.includes(frame.index)) return isShown(await finder.look(picture, checkpoint));
    const smallest = SMALLEST_SHARE * Math.min(picture.width, picture.height);
    return isShown(await finder.lookUpright(picture, smallest, checkpoint));
  });
  return { shown, left };
}
