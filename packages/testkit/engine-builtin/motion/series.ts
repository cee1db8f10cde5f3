import { lipGaps } from '@semblance/engine-builtin/internal/animate/lips';
import { DriverReference } from '@semblance/engine-builtin/internal/motion-transfer/measure';
import { FaceTracker } from '@semblance/engine-builtin/motion-transfer/face-tracker';
import type { Media, VideoFrame } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';

/** Mesh measurements of each frame of a video. */
export interface Series {
  readonly ptsUs: number[];
  readonly roll: number[];
  readonly yaw: number[];
  readonly pitch: number[];
  readonly dx: number[];
  readonly aperture: number[];
  readonly eyes: number[];
  readonly missing: number;
}

/** Measures every frame of a video. @param each called with every frame and its face */
export async function measureVideo(
  media: Media,
  finder: FaceFinder,
  path: string,
  each?: (frame: VideoFrame, face: Face) => Promise<void>,
): Promise<Series> {
  const signal = new AbortController().signal;
  const info = await media.probe(path, 'video', signal);
  const tracker = new FaceTracker(finder, () => undefined, 'both-ways');
  const series: Series & { missing: number } = {
    ptsUs: [],
    roll: [],
    yaw: [],
    pitch: [],
    dx: [],
    aperture: [],
    eyes: [],
    missing: 0,
  };
  let reference: DriverReference | undefined;
  for await (const frame of media.decodeVideo(path, info, { signal })) {
    const face = await tracker.track(frame);
    if (!face) {
      series.missing++;
      continue;
    }
    reference ??= new DriverReference(face.points);
    const motion = reference.measure(face.points);
    series.ptsUs.push(frame.ptsUs);
    series.roll.push(motion.roll);
    series.yaw.push(motion.yaw);
    series.pitch.push(motion.pitch);
    series.dx.push(motion.dx);
    series.aperture.push(lipGaps(motion.lips)[4] as number);
    series.eyes.push((motion.eyes[0] + motion.eyes[1]) / 2);
    await each?.(frame, face);
  }
  return series;
}

/** Returns Pearson's correlation coefficient. */
export function correlation(a: readonly number[], b: readonly number[]): number {
  const n = Math.min(a.length, b.length);
  const mean = (list: readonly number[]): number => list.slice(0, n).reduce((sum, v) => sum + v, 0) / n;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    const x = (a[i] as number) - ma;
    const y = (b[i] as number) - mb;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / Math.sqrt(aa * bb);
}

/** Returns the lag in frames of `b` behind `a` at which they correlate best. */
export function bestLag(a: readonly number[], b: readonly number[], most = 6): number {
  let best = { lag: 0, r: -1 };
  for (let lag = -most; lag <= most; lag++) {
    const r = correlation(a.slice(Math.max(0, -lag), a.length - Math.max(0, lag)), b.slice(Math.max(0, lag)));
    if (r > best.r) best = { lag, r };
  }
  return best.lag;
}
