import { RenderError } from '@semblance/engine-api/engine';
import { regionToRgb } from '@semblance/media/yuv';
import { openSession } from '@semblance/vision/models/session';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import sharp, { type Sharp } from 'sharp';
import type { SampledFrame } from '../looker/sampled-frames.ts';

/** Side of the network's square input, in pixels. */
const SIDE = 224;
/** Longest side of the frames to classify, in pixels. */
export const FRAME_SIDE = 2 * SIDE;
/** Largest picture that is opened, in pixels. An input larger than engines accept is refused earlier. */
const MAX_PIXELS = 200_000_000;
/** Classes of the network by their places: drawing, hentai, neutral, porn, sexy. */
const SEXUAL = [1, 3] as const;

/** Tells pictures of sexual acts and naked genitals, real or drawn, from others. */
export interface Classifier {
  /** @returns share from 0 to 1 @throws RenderError when the picture cannot be read */
  ofPicture(path: string): Promise<number>;
  ofFrame(sampled: SampledFrame): Promise<number>;
}

/**
 * Opens the network of nsfwjs. A picture is stretched to a square and given as shares of 255, as in `classify` of
 * nsfwjs 4.
 */
export async function openClassifier(): Promise<Classifier> {
  const session = await openSession('nudity');
  return {
    async ofPicture(path) {
      let pixels: Buffer;
      try {
        pixels = await square(sharp(path, { failOn: 'error', limitInputPixels: MAX_PIXELS }).autoOrient());
      } catch (cause) {
        throw new RenderError('unsupported_format', 'The picture could not be read.', { cause });
      }
      return shareOf(session, pixels);
    },
    async ofFrame({ frame, info }) {
      const { width, height } = frame;
      const { data } = regionToRgb(frame, { x: 0, y: 0, width, height }, info.video.color);
      return shareOf(session, await square(sharp(data, { raw: { width, height, channels: 3 } })));
    },
  };
}

function square(picture: Sharp): Promise<Buffer> {
  return picture
    .resize(SIDE, SIDE, { fit: 'fill' })
    .flatten({ background: '#ffffff' })
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer();
}

async function shareOf(session: InferenceSession, pixels: Buffer): Promise<number> {
  const input = Float32Array.from(pixels, (value) => value / 255);
  const [name = ''] = session.inputNames;
  const { classes } = await session.run({ [name]: new Tensor('float32', input, [1, SIDE, SIDE, 3]) });
  const shares = classes?.data as Float32Array;
  return SEXUAL.reduce((sum, at) => sum + (shares[at] ?? 0), 0);
}
