import type { Picture } from '@semblance/engine-api/picture';
import { shapeLips } from '@semblance/engine-builtin/internal/animate/lips';
import { drawPortrait } from '@semblance/engine-builtin/internal/animate/portrait';
import { preparePortrait } from '@semblance/engine-builtin/internal/animate/prepare';
import type { Media } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import sharp, { type Sharp } from 'sharp';
import { turnedHead } from './turned-head.ts';

/** Face with its surroundings, as a separate picture. */
export interface Subject {
  readonly name: string;
  readonly picture: Picture;
  readonly face: Face;
}

/**
 * Cuts head and shoulders of one face out of a photograph; the face must be the most prominent of the result.
 * @param place index from left to right, from 0
 */
export async function subjectOf(
  finder: FaceFinder,
  file: string,
  place: number,
  height: number,
): Promise<Subject> {
  const whole = await readRgb(sharp(file));
  const faces = await finder.find(whole, () => undefined);
  faces.sort((a, b) => (a.points[12] as number) - (b.points[12] as number));
  const chosen = faces[place];
  if (!chosen) throw new Error(`no face ${place} in ${file}`);
  const [x, y] = [chosen.points[12] as number, chosen.points[13] as number];
  const left = Math.max(0, Math.round(x - 2.6 * chosen.width));
  const top = Math.max(0, Math.round(y - 1.8 * chosen.width));
  const right = Math.min(whole.width, Math.round(x + 2.6 * chosen.width));
  const bottom = Math.min(whole.height, Math.round(y + 2.3 * chosen.width));
  const width = 2 * Math.round((((right - left) / (bottom - top)) * height) / 2);
  const picture = await readRgb(
    sharp(file)
      .extract({ left, top, width: right - left, height: bottom - top })
      .resize(width, height, { fit: 'fill', kernel: 'lanczos3' }),
  );
  const found = await finder.find(picture, () => undefined);
  const face = found[0];
  if (!face) throw new Error(`the face ${place} of ${file} is lost when cut out`);
  return { name: `${file.replace(/^.*\//, '').replace(/\.\w+$/, '')}#${place}`, picture, face };
}

export async function readRgb(pipeline: Sharp): Promise<Picture> {
  const { data, info } = await pipeline
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

/** Returns one movement there and back. Movements follow each other, so that none hides another. */
function swing(t: number, from: number, length: number, cycles: number): number {
  const u = (t - from) / length;
  return u < 0 || u > 1 ? 0 : Math.sin(2 * Math.PI * cycles * u) * Math.min(1, 6 * u, 6 * (1 - u));
}

/** Length of a driver, in seconds. */
export const DRIVER_SEC = 10;

/** Returns the pose at a time: roll, yaw, pitch, position, size, then talking, and all together at the end. */
export function motionAt(t: number): {
  roll: number;
  yaw: number;
  pitch: number;
  dx: number;
  dy: number;
  scale: number;
  open: number;
  blink: number;
} {
  const all = swing(t, 7.2, 2.8, 2);
  const talk = t < 4.5 || t > 7.2 ? (t > 7.2 ? 0.6 : 0) : 1;
  return {
    roll: 0.26 * swing(t, 0.4, 1.6, 1) + 0.12 * all,
    yaw: 0.42 * swing(t, 1.6, 1.8, 1) + 0.22 * swing(t, 7.2, 2.8, 1.5),
    pitch: 0.24 * swing(t, 3, 1.5, 1) + 0.1 * all,
    dx: 0.14 * swing(t, 4.2, 1.4, 1),
    dy: 0.06 * swing(t, 4.6, 1.4, 1),
    scale: 1 + 0.08 * swing(t, 5.2, 1.6, 1),
    open:
      talk *
      Math.max(0, 0.13 + 0.13 * Math.sin(2 * Math.PI * 2.7 * t) + 0.05 * Math.sin(2 * Math.PI * 4.3 * t)),
    blink: Math.exp(-((((t % 2.1) - 1.05) / 0.07) ** 2)),
  };
}

/** Writes a driver made from a photograph. @param how by the engine's own animator, or as a painted ellipsoid */
export async function writeDriver(
  media: Media,
  subject: Subject,
  how: 'animator' | 'ellipsoid',
  options: {
    path: string;
    frameRate: number;
    seconds?: number;
    audio?: string;
    /** Returns the moment of the motion that is shown at a time of the video, in seconds. */
    at?: (time: number) => number;
  },
): Promise<void> {
  const { picture, face } = subject;
  const { width, height } = picture;
  const writer = await media.openWriter({
    path: options.path,
    width,
    height,
    frameRate: options.frameRate,
    color: { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' },
    signal: new AbortController().signal,
    ...(options.audio ? { audio: { path: options.audio } } : {}),
  });
  const portrait = how === 'animator' ? preparePortrait(picture, face) : undefined;
  const frames = Math.round((options.seconds ?? DRIVER_SEC) * options.frameRate);
  for (let n = 0; n < frames; n++) {
    const t = n / options.frameRate;
    const { open, blink, ...head } = motionAt(options.at?.(t) ?? t);
    const data = portrait
      ? drawPortrait(portrait, {
          ...head,
          expression: {
            lips: shapeLips(portrait.rig.lips, { open, spread: 0, round: 0 }),
            eyes: [1 - blink, 1 - blink],
            brows: [0, 0, 0, 0],
          },
        })
      : turnedHead(picture, face, { ...head, jaw: open * 0.5 });
    await writer.write({ ptsUs: Math.round(t * 1e6), data });
  }
  await writer.finish(Math.round((frames / options.frameRate) * 1e6));
}
