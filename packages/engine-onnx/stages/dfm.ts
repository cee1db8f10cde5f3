import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb, type Point, type RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane } from '@semblance/vision/plane/plane';
import { dfmSize } from '../contracts/swappers.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import { alignFace } from '../vision/align.ts';
import { fromInterleaved, toInterleaved } from '../vision/tensors.ts';
import type { SwappedCrop } from './drawn-crop.ts';
import type { OpenModel } from './models.ts';

/** The input is sharpened by this share of its difference to itself blurred by so many pixels. */
const SHARPER = 0.75;
const SHARPER_REACH = 2;
/** Pixels by which the mask shrinks, and pixels of its soft edge. */
const SHRINK = 2;
const SOFT = 6.25;

/**
 * Draws a face with the identity that a DeepFaceLab model was trained on. Sharpening and mask are those of
 * `prepare_crop_frame` and `prepare_crop_mask` in FaceFusion's `deep_swapper/core.py`.
 */
export async function drawDfm(
  swapper: OpenModel,
  picture: Picture,
  five: readonly Point[],
  signal: AbortSignal,
): Promise<SwappedCrop> {
  const { traits, model, options } = swapper;
  const { template = 'dfl_whole_face' } = traits;
  const size = dfmSize(model.summary);
  const transform = alignFace(five, template, size);
  const base = cropRgb(picture, transform, size, size);
  const morph = model.inputs.find(({ role }) => role === 'morph');
  const face = toInterleaved(sharpened(base), traits);
  const feeds: FloatTensors = morph
    ? { face, morph: { data: Float32Array.of(options.morph ?? 1), dims: morph.dims } }
    : { face };
  const outputs = await swapper.runAll(feeds, signal);
  const of = (role: string): FloatTensor => outputs[role] as FloatTensor;
  return {
    transform,
    base,
    crop: fromInterleaved(of('face'), traits),
    drawn: dfmMask(of('target_mask').data, of('face_mask').data, size),
  };
}

function sharpened({ width, height, data }: RgbImage): RgbImage {
  const out = new Float32Array(data.length);
  for (let c = 0; c < 3; c++) {
    const channel = plane(width, height);
    for (let i = 0; i < channel.data.length; i++) channel.data[i] = data[i * 3 + c] as number;
    const soft = blur(channel, SHARPER_REACH);
    for (let i = 0; i < channel.data.length; i++) {
      const own = channel.data[i] as number;
      out[i * 3 + c] = Math.min(255, Math.max(0, own + SHARPER * (own - (soft.data[i] as number))));
    }
  }
  return { width, height, data: out };
}

/** Returns where both faces are, a little smaller, with a soft edge. */
function dfmMask(target: Float32Array, face: Float32Array, size: number): Plane {
  let mask = plane(size, size);
  for (let i = 0; i < mask.data.length; i++)
    mask.data[i] = Math.min(1, Math.max(0, Math.min(target[i] as number, face[i] as number)));
  for (let step = 0; step < SHRINK; step++) mask = eroded(mask);
  return blur(mask, SOFT);
}

/** Returns the least of each pixel and its four neighbours; nothing lies beyond the edge. */
function eroded({ width, height, data }: Plane): Plane {
  const out = plane(width, height);
  for (let y = 1; y < height - 1; y++) {
    for (let x = 1; x < width - 1; x++) {
      const i = y * width + x;
      out.data[i] = Math.min(...[i, i - 1, i + 1, i - width, i + width].map((at) => data[at] as number));
    }
  }
  return out;
}
