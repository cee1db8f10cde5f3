import type { Picture } from '@semblance/engine-api/picture';
import type { Point } from '@semblance/vision/picture';
import type { FloatTensors } from '../sessions/protocol.ts';
import { alignFace } from '../vision/align.ts';
import { briefCrop } from '../vision/brief-crop.ts';
import { fromPlanes, toPlanes } from '../vision/tensors.ts';
import type { DrawnCrop } from './drawn-crop.ts';
import type { OpenModel } from './models.ts';

/** Returns a face restored. */
export async function restoreFace(
  enhancer: OpenModel,
  picture: Picture,
  five: readonly Point[],
  signal: AbortSignal,
): Promise<DrawnCrop> {
  const { template = 'ffhq_512', size = 512 } = enhancer.traits;
  const transform = alignFace(five, template, size);
  const input = toPlanes(briefCrop(picture, transform, size, size), enhancer.traits);
  const weight = enhancer.model.inputs.find(({ role }) => role === 'weight');
  const feeds: FloatTensors = weight
    ? { input, weight: { data: Float32Array.of(enhancer.options.weight ?? 0.5), dims: weight.dims } }
    : { input };
  return { transform, crop: fromPlanes(await enhancer.run(feeds, signal), enhancer.traits) };
}
