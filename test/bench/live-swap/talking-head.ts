import { shapeLips } from '@semblance/engine-builtin/internal/animate/lips';
import { drawPortrait } from '@semblance/engine-builtin/internal/animate/portrait';
import { preparePortrait } from '@semblance/engine-builtin/internal/animate/prepare';
import { regionToRgb } from '@semblance/media/yuv';
import { motionAt, subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { COLOR } from '@semblance/testkit/engine-builtin/video-swap/clips';
import type { FaceFinder } from '@semblance/vision/face-finder';
import sharp from 'sharp';
import type { Portrait } from '../video-swap/scenes.ts';

export interface HeadClip {
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  readonly fps: number;
}

/** Standard deviation of a camera's noise, in levels of 8 bits. */
const NOISE = 2.5;

/**
 * Makes the pictures that a camera would send of a portrait that nods, turns, comes nearer, speaks and blinks:
 * JPEGs of quality 85 with noise, the same in every run.
 */
export async function talkingHead(
  finder: FaceFinder,
  { path, place }: Pick<Portrait, 'path' | 'place'>,
  { width, height, frames, fps }: HeadClip,
): Promise<Buffer[]> {
  const { picture, face } = await subjectOf(finder, path, place, height);
  const prepared = preparePortrait(picture, face);
  const noise = noiseOf(width * height * 3);
  const made: Buffer[] = [];
  for (let frame = 0; frame < frames; frame++) {
    const { open, blink, ...head } = motionAt(frame / fps);
    const data = drawPortrait(prepared, {
      ...head,
      expression: {
        lips: shapeLips(prepared.rig.lips, { open, spread: 0, round: 0 }),
        eyes: [1 - blink, 1 - blink],
        brows: [0, 0, 0, 0],
      },
    });
    const rect = { x: 0, y: 0, width: picture.width, height: picture.height };
    const rgb = regionToRgb({ width: picture.width, height: picture.height, data }, rect, COLOR);
    const raw = { width: rect.width, height: rect.height, channels: 3 } as const;
    const filled = await sharp(rgb.data, { raw }).resize(width, height, { fit: 'cover' }).raw().toBuffer();
    const clamped = new Uint8ClampedArray(filled.length);
    // The noise is shifted from frame to frame, so that it does not stand still.
    const shift = (frame * 7919) % noise.length;
    for (let i = 0; i < filled.length; i++) {
      clamped[i] = (filled[i] as number) + (noise[(i + shift) % noise.length] as number);
    }
    made.push(
      await sharp(clamped, { raw: { width, height, channels: 3 } })
        .jpeg({ quality: 85 })
        .toBuffer(),
    );
  }
  return made;
}

/** Uses the generator of Park and Miller; the sum of three uniform values is nearly normal. */
function noiseOf(length: number): Float32Array {
  let seed = 1;
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647 - 0.5;
  };
  return Float32Array.from({ length }, () => 2 * NOISE * (random() + random() + random()));
}
