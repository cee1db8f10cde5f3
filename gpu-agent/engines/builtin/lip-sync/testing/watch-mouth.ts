import type { VideoFrame } from '../../../../media/types.ts';
import { openSession } from '../../../models/session.ts';
import { faceFrame, toFaceFrame } from '../../animate/face-frame.ts';
import { FaceTracker } from '../../motion/face-tracker.ts';
import { ringsOf } from '../../mouth/lip-rings.ts';
import { gapsOf } from '../../mouth/rest-mouth.ts';
import { FaceFinder } from '../../vision/face-finder.ts';
import { PoseReader } from '../audio/mouth-track.ts';
import { posesOf } from '../training/measure.ts';

/** What is seen of the mouth in each frame that shows a face, and what the sound told it to do then. */
export interface WatchedMouth {
  /** Opening as the mesh network sees it, IOD. */
  readonly aperture: number[];
  readonly chin: number[];
  readonly told: number[];
}

/** Looks at a rendered video with the mesh network. @param samples its sound, mono, 16 kHz */
export async function watchMouth(
  frames: AsyncIterable<VideoFrame> | Iterable<VideoFrame>,
  samples: Float32Array,
  frameUs = 40_000,
): Promise<WatchedMouth> {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const tracker = new FaceTracker(new FaceFinder({ blazeface, facemesh }), () => undefined);
  const poses = await posesOf(samples);
  const reader = new PoseReader(
    (async function* () {
      yield* poses;
    })(),
  );
  const out: WatchedMouth = { aperture: [], chin: [], told: [] };
  for await (const frame of frames) {
    const face = await tracker.track(frame);
    const pose = await reader.at((frame.ptsUs + frameUs / 2) / 1e6);
    if (!face) continue;
    const own = toFaceFrame(faceFrame(face.points), face.points);
    out.aperture.push(gapsOf(ringsOf(own))[4] as number);
    out.chin.push(own[152 * 3 + 1] as number);
    out.told.push(pose.openness);
  }
  return out;
}
