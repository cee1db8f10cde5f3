import { join } from 'node:path';
import { shapeLips } from '@semblance/engine-builtin/internal/animate/lips';
import { drawPortrait, type Pose, REST } from '@semblance/engine-builtin/internal/animate/portrait';
import { preparePortrait } from '@semblance/engine-builtin/internal/animate/prepare';
import { setSmile, smileOf } from '@semblance/engine-builtin/internal/animate/smile';
import type { Media } from '@semblance/media/types';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { COLOR } from '@semblance/testkit/engine-builtin/video-swap/clips';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { smoothstep } from '@semblance/vision/plane/plane';
import { ROOT } from '../../photo-swap/portraits.ts';

export const DRIVER_RATE = 20;
/** Frames of a whole driver. */
export const DRIVER_FRAMES = 56;
/** First frame of a driver that was cut: its mouth is open in a smile, its head as in the first frame. */
export const CUT = 11;

const HEIGHT = 480;
/** Photographs that drive: one smiles with teeth, one has closed lips. */
export const DRIVERS = {
  astronaut: join(ROOT, 'media', 'astronaut.png'),
  hopper: join(ROOT, 'media', 'grace_hopper.jpg'),
} as const;
export type DriverName = keyof typeof DRIVERS;

/** Returns 0 outside a time, and 1 within it apart from its ends. */
const during = (t: number, from: number, to: number): number =>
  smoothstep(from, from + 0.2, t) * (1 - smoothstep(to - 0.2, to, t));
const swing = (t: number, from: number, to: number): number =>
  t < from || t > to ? 0 : Math.sin((2 * Math.PI * (t - from)) / (to - from));

/** What a driver does at a time: it laughs, then turns and leans to both sides, speaks meanwhile, and blinks. */
export function actAt(t: number): {
  head: Omit<Pose, 'expression'>;
  open: number;
  smile: number;
  eyes: number;
} {
  const talk = during(t, 1.7, 2.6);
  const blink = Math.max(...[1.2, 2.3].map((at) => Math.exp(-(((t - at) / 0.07) ** 2))));
  return {
    head: {
      yaw: 0.32 * swing(t, 1.1, 2.1),
      roll: 0.16 * swing(t, 1.5, 2.5),
      pitch: 0.12 * swing(t, 1.7, 2.6),
      dx: 0.12 * swing(t, 1.2, 2.4),
      dy: 0.05 * swing(t, 1.4, 2.6),
      scale: 1 + 0.05 * swing(t, 1.6, 2.6),
    },
    open: 0.2 * during(t, 0.2, 1.05) + 0.26 * talk * Math.sin(Math.PI * 2.2 * (t - 1.7)) ** 2,
    smile: during(t, 0.2, 1.05),
    eyes: 1 - blink,
  };
}

/** Width that a laugh adds to a mouth, and by which it lifts the corners, in IOD. */
const LAUGH = { width: 0.14, lift: 0.05 };

/** Writes the driver of a photograph: the whole one, or what is left when it is cut. */
export async function driverClip(
  media: Media,
  finder: FaceFinder,
  { name, from, path }: { readonly name: DriverName; readonly from: number; readonly path: string },
): Promise<void> {
  const { picture, face } = await subjectOf(finder, DRIVERS[name], 0, HEIGHT);
  const { width, height } = picture;
  const portrait = preparePortrait(picture, face);
  const rest = portrait.rig.lips;
  const own = smileOf(rest);
  const writer = await media.openWriter({
    ...{ path, width, height, frameRate: DRIVER_RATE, color: COLOR },
    signal: new AbortController().signal,
  });
  for (let n = from; n < DRIVER_FRAMES; n++) {
    const { head, open, smile, eyes } = actAt(n / DRIVER_RATE);
    const lips = shapeLips(rest, { open, spread: 0, round: 0 });
    const told = smileOf(rest.map((value, i) => value + (lips[i] as number)));
    if (smile > 0)
      setSmile(rest, lips, {
        width: told.width + smile * LAUGH.width,
        lift: own.lift + smile * LAUGH.lift,
      });
    const pose = { ...REST, ...head, expression: { lips, eyes: [eyes, eyes] as const } };
    const ptsUs = Math.round(((n - from) * 1e6) / DRIVER_RATE);
    await writer.write({ ptsUs, data: drawPortrait(portrait, pose) });
  }
  await writer.finish(Math.round(((DRIVER_FRAMES - from) * 1e6) / DRIVER_RATE));
}
