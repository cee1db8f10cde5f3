import type { Picture } from '@semblance/engine-api/picture';
import { type CropTransform, cropRgb, type Point } from '@semblance/vision/picture';
import { MOST_BOOST } from '../contracts/swappers.ts';
import type { FloatTensor } from '../sessions/protocol.ts';
import { alignFace } from '../vision/align.ts';
import { joinPixels, splitPixels } from '../vision/pixel-boost.ts';
import { fromPlanes, toPlanes } from '../vision/tensors.ts';
import { drawDfm } from './dfm.ts';
import type { SwappedCrop } from './drawn-crop.ts';
import type { OpenModel } from './models.ts';

/**
 * Draws a face with an identity. If the crop is larger than the network's input, the network draws it in interleaved
 * parts.
 * @param source the identity in the form that the swapper expects; undefined if it has its own
 */
export async function drawSwapped(
  swapper: OpenModel,
  picture: Picture,
  five: readonly Point[],
  source: FloatTensor | undefined,
  signal: AbortSignal,
): Promise<SwappedCrop> {
  if (swapper.traits.identity === 'own') return drawDfm(swapper, picture, five, signal);
  if (!source) throw new Error(`the identity has no form for ${swapper.model.name}`);
  const { template = 'arcface_128', size = 128 } = swapper.traits;
  const side = boostedSide(swapper, alignFace(five, template, size));
  const transform = alignFace(five, template, side);
  const base = cropRgb(picture, transform, side, side);
  // All parts run at once, so that a model with a batch takes them in one run.
  const drawn = await Promise.all(
    splitPixels(base, side / size).map(async (part) => {
      const feeds = {
        target: toPlanes(part, swapper.traits),
        // This is a copy, because the input of a model is transferred.
        source: { ...source, data: source.data.slice() },
      };
      return fromPlanes(await swapper.run(feeds, signal), swapper.traits);
    }),
  );
  return { transform, crop: joinPixels(drawn), base };
}

/**
 * Returns the side of the crop by the option `boost`: with `auto` the least multiple of the network's input that is
 * as fine as the picture.
 */
function boostedSide({ traits, options, choices }: OpenModel, plain: CropTransform): number {
  const { size = 128 } = traits;
  if (choices.boost !== 'auto') return options.boost ?? size;
  return size * Math.min(MOST_BOOST / size, Math.max(1, Math.ceil(plain.scale - SLACK)));
}

/** Share of a pixel by which a crop may be coarser than the picture: half of another part would not be seen. */
const SLACK = 0.25;
