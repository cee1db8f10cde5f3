import { join } from 'node:path';
import type { BadSample, Inputs } from '@semblance/gpu-agent/conformance/samples';
import sharp from 'sharp';
import { type Clip, room, walker, writeClip } from '../engine-builtin/identity-swap/clips.ts';
import {
  BLUE_SHIRT,
  drawFigure,
  loadHead,
  RED_SHIRT,
  STANDING,
} from '../engine-builtin/identity-swap/figure.ts';
import { openMediaRig } from '../media/clips.ts';

const [WIDTH, HEIGHT] = [320, 240];

/** Creates samples for Identity Swap: a walking person, another person who stands, and an empty room for both. */
export async function walkers(dir: string): Promise<{ inputs: Inputs; bad: readonly BadSample[] }> {
  const [astronaut, admiral] = await Promise.all([loadHead('astronaut'), loadHead('hopper')]);
  const [video, nobody, character, empty] = ['walk.mp4', 'nobody.mp4', 'character.png', 'room.png'].map(
    (name) => join(dir, name),
  ) as [string, string, string, string];
  const clip: Clip = {
    width: WIDTH,
    height: HEIGHT,
    frames: 15,
    rate: 15,
    dress: BLUE_SHIRT,
    head: astronaut,
    stance: walker(WIDTH, HEIGHT),
  };
  const rig = await openMediaRig();
  try {
    await writeClip(rig.media, clip, video);
    await writeClip(rig.media, { ...clip, frames: 6, stance: () => undefined }, nobody);
  } finally {
    await rig.close();
  }
  const size = { width: 300, height: 400 };
  const stance = { ...STANDING, x: 150, y: 385, height: 360 };
  const background = room(size.width, size.height);
  const { rgb } = drawFigure(
    size.width,
    size.height,
    stance,
    { dress: RED_SHIRT, head: admiral },
    background,
  );
  await sharp(rgb, { raw: { ...size, channels: 3 } })
    .png()
    .toFile(character);
  await sharp(background, { raw: { ...size, channels: 3 } })
    .png()
    .toFile(empty);
  const inputs = { video, character };
  const code = 'face_not_detected' as const;
  return {
    inputs,
    bad: [
      { name: 'a video without a person', inputs: { ...inputs, video: nobody }, code },
      { name: 'a character picture without a person', inputs: { ...inputs, character: empty }, code },
    ],
  };
}
