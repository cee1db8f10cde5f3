import {
  type MouthPose,
  measureLevel,
  mouthPoses,
  type PoseOptions,
} from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-track';

async function* pieces(samples: Float32Array): AsyncGenerator<Float32Array> {
  for (let at = 0; at < samples.length; at += 16_000) yield samples.subarray(at, at + 16_000);
}

/** Returns all mouth poses of a sound. */
export async function posesOf(samples: Float32Array, options?: PoseOptions): Promise<MouthPose[]> {
  const level = await measureLevel(pieces(samples));
  const out: MouthPose[] = [];
  for await (const pose of mouthPoses(pieces(samples), level, options)) out.push(pose);
  return out;
}
