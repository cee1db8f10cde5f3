import type { Picture } from '@semblance/engine-api/picture';
import type { GivenModel } from './model-dir-rig.ts';
import { FACE, FIVE, type OnnxRig, rgb } from './onnx-rig.ts';
import { ARCFACE_128, type ReferenceSwap, referenceEmbedding, referenceSwap } from './swap-reference.ts';
import { tinyAnchored } from './tiny-detectors.ts';
import { tinyArcface, tinySwapper } from './tiny-models.ts';

/** What tests of swappers share: models, and one swap of the rig's portraits compared with a reference. */

export const detector: GivenModel = { contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) };
export const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };

/** Scale of a network's pictures: as they are, and from -1 to 1. */
export const UNIT = { mean: [0, 0, 0], deviation: [1, 1, 1], denormalise: false };
export const SIGNED = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5], denormalise: true };
export const INSWAPPER: ReferenceSwap = { size: 128, template: ARCFACE_128, ...UNIT };

/** Returns a swapper whose colours stay as it draws them. */
export function inswapper(options: Record<string, unknown> = {}): GivenModel {
  return { contract: 'inswapper_128', bytes: tinySwapper(), options: { match: 0, ...options } };
}

/** Returns a picture swapped by these models and a detector. */
export async function swapped(
  rig: OnnxRig,
  models: readonly GivenModel[],
  image = rig.image,
): Promise<Picture> {
  const engine = await rig.engine([detector, ...models]);
  return rgb((await rig.swap(engine, { inputs: { image, face: rig.face } })).outputPath);
}

export function pixel(picture: Picture, x: number, y: number, c: number): number {
  return picture.data[(y * picture.width + x) * 3 + c] as number;
}

/** Returns the mean difference of the middle of a swapped face to a reference, in levels. */
export async function offReference(
  rig: OnnxRig,
  after: Picture,
  colour: readonly number[],
  how: ReferenceSwap,
): Promise<number> {
  const wanted = referenceSwap(await rgb(rig.image), FIVE, colour, how);
  let [sum, count] = [0, 0];
  for (let y = 270; y < 350; y += 3) {
    for (let x = 215; x < 300; x += 3) {
      for (let c = 0; c < 3; c++, count++)
        sum += Math.abs(pixel(after, x, y, c) - wanted.read(x + 0.5, y + 0.5, c));
    }
  }
  return sum / count;
}

/** Returns the embedding of the rig's source. */
export async function identity(rig: OnnxRig): Promise<Float64Array> {
  return referenceEmbedding(await rgb(rig.face), FIVE);
}
