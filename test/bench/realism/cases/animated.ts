import type { Picture } from '@semblance/engine-api/picture';
import { drawPortrait, type Pose, REST } from '@semblance/engine-builtin/internal/animate/portrait';
import { preparePortrait } from '@semblance/engine-builtin/internal/animate/prepare';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import type { Face } from '@semblance/vision/face-mesh';
import sharp from 'sharp';

/**
 * Returns a function that draws a portrait in a pose, as Motion Transfer does. The pictures are of even size, so the
 * last column and row may be missing.
 */
export async function animated(picture: Picture, face: Face): Promise<(pose: Partial<Pose>) => Picture> {
  const still = await evenSized(picture);
  const { width, height } = still;
  const portrait = preparePortrait(still, face);
  return (pose) => ({
    width,
    height,
    channels: 3,
    data: yuvToRgb(drawPortrait(portrait, { ...REST, ...pose }), width, height),
  });
}

/** Returns a picture of even size, as videos have: the last column and row may be missing. */
export async function evenSized(picture: Picture): Promise<Picture & { readonly data: Uint8Array }> {
  const [width, height] = [picture.width & ~1, picture.height & ~1];
  const data = await sharp(picture.data, {
    raw: { width: picture.width, height: picture.height, channels: 3 },
  })
    .extract({ left: 0, top: 0, width, height })
    .raw()
    .toBuffer();
  return { width, height, channels: 3, data: new Uint8Array(data) };
}
