import { join } from 'node:path';
import type { BadSample, Inputs } from '@semblance/gpu-agent/conformance/samples';
import sharp from 'sharp';

const MEDIA = join(import.meta.dirname, '../../../media');

/**
 * Returns samples for a Photo Swap engine: two portraits of this repository, and pictures without a face.
 * @param side side of the portraits in pixels; default: their own size
 */
export async function portraits(
  dir: string,
  side?: number,
): Promise<{ inputs: Inputs; bad: readonly BadSample[] }> {
  const blank = join(dir, 'blank.png');
  await sharp({ create: { width: 320, height: 240, channels: 3, background: '#789' } })
    .png()
    .toFile(blank);
  const scaled = async (name: string) => {
    const path = join(MEDIA, name);
    if (side === undefined) return path;
    const smaller = join(dir, `${name}-${side}.png`);
    await sharp(path).resize(side, side, { fit: 'inside' }).png().toFile(smaller);
    return smaller;
  };
  const inputs = { image: await scaled('astronaut.png'), face: await scaled('grace_hopper.jpg') };
  const code = 'face_not_detected' as const;
  return {
    inputs,
    bad: [
      { name: 'a base image without a face', inputs: { ...inputs, image: blank }, code },
      { name: 'a face picture without a face', inputs: { ...inputs, face: blank }, code },
    ],
  };
}
