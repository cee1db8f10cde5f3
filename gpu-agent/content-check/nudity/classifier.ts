import { regionToRgb } from '@semblance/media/yuv';
import { readSmall } from '@semblance/vision/image/picture-file';
import { NUDITY_SIDE, openNudity } from '@semblance/vision/nudity';
import sharp, { type Sharp } from 'sharp';
import type { SampledFrame } from '../looker/sampled-frames.ts';

/** Longest side of the frames to classify, in pixels. */
export const FRAME_SIDE = 2 * NUDITY_SIDE;
/** Largest picture that is opened, in pixels. An input larger than engines accept is refused earlier. */
const MAX_PIXELS = 200_000_000;

/** Tells pictures of sexual acts and naked genitals, real or drawn, from others. */
export interface Classifier {
  /** @returns share from 0 to 1 @throws RenderError when the picture cannot be read */
  ofPicture(path: string): Promise<number>;
  ofFrame(sampled: SampledFrame): Promise<number>;
}

export async function openClassifier(): Promise<Classifier> {
  const nudityOf = await openNudity();
  return {
    async ofPicture(path) {
      const size = { width: NUDITY_SIDE, height: NUDITY_SIDE, fit: 'fill' } as const;
      return nudityOf((await readSmall(path, size, MAX_PIXELS)).data);
    },
    async ofFrame({ frame, info }) {
      const { width, height } = frame;
      const { data } = regionToRgb(frame, { x: 0, y: 0, width, height }, info.video.color);
      return nudityOf(await square(sharp(data, { raw: { width, height, channels: 3 } })));
    },
  };
}

/** Scales pixels of our own, which need no wall. */
function square(picture: Sharp): Promise<Buffer> {
  return picture
    .resize(NUDITY_SIDE, NUDITY_SIDE, { fit: 'fill' })
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer();
}
