import { faceFrame, toFaceFrame } from '@semblance/engine-builtin/internal/animate/face-frame';
import { PoseReader } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';
import { ringsOf } from '@semblance/engine-builtin/internal/mouth/lip-rings';
import { gapsOf } from '@semblance/engine-builtin/internal/mouth/rest-mouth';
import { FaceTracker } from '@semblance/engine-builtin/motion-transfer/face-tracker';
import type { VideoFrame } from '@semblance/media/types';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { posesOf } from '../../sound/poses.ts';

/** Mouth of each frame that shows a face, with the sound at its time. */
export interface WatchedMouth {
  /** Mouth opening that the mesh network finds, in interocular distances. */
  readonly aperture: number[];
  readonly chin: number[];
  readonly told: number[];
}

/** Measures the mouth in a rendered video with the mesh network. @param samples its sound, mono, 16 kHz */
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
