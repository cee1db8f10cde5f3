import type { Picture } from '@semblance/engine-api/picture';
import type { Media } from '@semblance/media/types';
import { correlation } from '@semblance/testkit/engine-builtin/motion/series';
import { centroid, type Face, pointOf } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { cropRgb, squareCrop } from '@semblance/vision/picture';
import { eyeDistance } from './identity-measures.ts';

/** Loudness, against the loudest, below which nothing is said, and the least time of it, in seconds. */
const SILENT = 0.03;
const PAUSE_SEC = 0.2;
const RATE = 16_000;

/** Returns for each frame of a clip whether it is in the middle of a pause of its sound, by the loudness alone. */
export async function pausesOf(
  media: Media,
  path: string,
  frames: number,
  frameRate: number,
): Promise<boolean[]> {
  const samples: number[] = [];
  const { signal } = new AbortController();
  for await (const chunk of media.decodeAudio(path, { sampleRate: RATE, signal })) samples.push(...chunk);
  return pausesIn(samples, { sampleRate: RATE, frames, frameRate });
}

export function pausesIn(
  samples: ArrayLike<number>,
  {
    sampleRate,
    frames,
    frameRate,
  }: { readonly sampleRate: number; readonly frames: number; readonly frameRate: number },
): boolean[] {
  const per = sampleRate / frameRate;
  const loud = Array.from({ length: frames }, (_, n) => {
    const [from, to] = [Math.round(n * per), Math.min(samples.length, Math.round((n + 1) * per))];
    let sum = 0;
    for (let i = from; i < to; i++) sum += (samples[i] as number) ** 2;
    return Math.sqrt(sum / Math.max(1, to - from));
  });
  const most = Math.max(...loud);
  const silent = loud.map((value) => value < SILENT * most);
  const half = Math.round((PAUSE_SEC * frameRate) / 2);
  // A mouth closes and opens in the outer parts of a pause.
  return silent.map((_, n) => {
    const around = silent.slice(Math.max(0, n - half), n + half + 1);
    return around.length === 2 * half + 1 && around.every(Boolean);
  });
}

/** Side of an eye's picture in pixels, its border, and its size in eye distances. */
const EYE = { side: 28, border: 3, size: 0.5 } as const;
/** Frames before and after one by which its eyes are judged: more than twice as many as a blink has. */
const AROUND = 7;
/** Fall of the likeness to the still's eye that is a blink. */
const BLINK = 0.05;

/**
 * Returns the frames in which blinks begin. A mesh hardly sees shut eyes, so each eye is compared with the still's: a
 * blink is a short fall of their correlation.
 */
export function blinksOf(
  still: { readonly picture: Picture; readonly face: Face },
  frames: readonly Picture[],
  faces: readonly Face[],
): number[] {
  const alike = alikeOf(still, frames, faces);
  const shut = alike.map((value, n) => {
    const around = alike.slice(Math.max(0, n - AROUND), n + AROUND + 1).sort((a, b) => a - b);
    return value < (around[around.length >> 1] as number) - BLINK;
  });
  return shut.flatMap((now, n) => (now && !shut[n - 1] ? [n] : []));
}

/** Returns how like the still's the eyes of each frame are. */
function alikeOf(
  still: { readonly picture: Picture; readonly face: Face },
  frames: readonly Picture[],
  faces: readonly Face[],
): number[] {
  const own = EYES.map((points) => eyeOf(still.picture, still.face, points));
  return faces.map((face, n) =>
    Math.max(
      ...EYES.map((points, k) => likeness(own[k] as Float64Array, eyeOf(frames[n] as Picture, face, points))),
    ),
  );
}

const EYES = [RIGHT_EYE, LEFT_EYE];

function eyeOf(picture: Picture, face: Face, points: readonly number[]): Float64Array {
  const { side, size } = EYE;
  const crop = squareCrop(centroid(face.points, points), size * eyeDistance(face), face.roll, side);
  const { data } = cropRgb(picture, crop, side, side);
  return Float64Array.from({ length: side * side }, (_, i) => data[i * 3 + 1] as number);
}

/** Returns the correlation of two eyes, of which one is shifted as it fits best. */
function likeness(a: Float64Array, b: Float64Array): number {
  const { side, border } = EYE;
  let best = -1;
  for (let dy = -border; dy <= border; dy++)
    for (let dx = -border; dx <= border; dx++) {
      const [p, q]: number[][] = [[], []];
      for (let y = border; y < side - border; y++)
        for (let x = border; x < side - border; x++) {
          p?.push(a[y * side + x] as number);
          q?.push(b[(y + dy) * side + x + dx] as number);
        }
      best = Math.max(best, correlation(p as number[], q as number[]));
    }
  return best;
}

/** Returns the width of the mouth in eye distances, which a turned head does not change much. */
export function widthOf(face: Face): number {
  const [a, b] = [pointOf(face.points, 61), pointOf(face.points, 291)];
  return Math.hypot(a.x - b.x, a.y - b.y) / eyeDistance(face);
}

/** Returns the farthest way of the bridge of the nose from its place in the still, in eye distances. */
export function headWay(still: Face, faces: readonly Face[]): number {
  const rest = pointOf(still.points, 168);
  const ways = faces.map(({ points }) => {
    const { x, y } = pointOf(points, 168);
    return Math.hypot(x - rest.x, y - rest.y) / eyeDistance(still);
  });
  return Math.max(0, ...ways);
}
