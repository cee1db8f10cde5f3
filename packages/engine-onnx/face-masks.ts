import type { Picture } from '@semblance/engine-api/picture';
import type { Plane } from '@semblance/vision/plane/plane';
import type { TemplateName } from './contracts/contract.ts';
import type { PlacedFace } from './face-places.ts';
import type { SwappedCrop } from './stages/drawn-crop.ts';
import { faceField, occlusionField, parserField } from './stages/masks.ts';
import type { Models, OpenModel, StageLog } from './stages/models.ts';
import { alignFace } from './vision/align.ts';
import { boxMask, CROP_EDGE, outlineMask, withinCrop, withoutCover } from './vision/face-mask.ts';
import type { PasteMask } from './vision/paste.ts';

/**
 * Returns where a face may be changed. Its shape is the option `mask` of its swapper, without what is in front:
 * - `oval`: the outline of the face as it is, without what a parser excludes
 * - `box` and `parser`: the whole crop of the swapper; see {@link withinDrawn}
 * @param cover what the shipped network finds there; it is asked where the owner has no network for that
 */
export async function faceMask(
  models: Models,
  swapper: OpenModel | undefined,
  picture: Picture,
  face: PlacedFace,
  cover: Plane | undefined,
  signal: AbortSignal,
  log: StageLog,
): Promise<PasteMask> {
  const template: TemplateName = swapper?.traits.template ?? 'ffhq_512';
  const whole = (swapper?.choices.mask ?? 'oval') !== 'oval';
  let mask = shapeOf(face, template, whole);
  const occlusion = models.get('occlusion');
  if (occlusion) {
    const { transform, field } = await log.onnx('occlusion', occlusion, () =>
      occlusionField(occlusion, picture, { five: face.five, template }, signal),
    );
    mask = withinCrop(mask, transform, field);
  } else if (cover && face.mesh) mask = withoutCover(mask, face.mesh, cover);
  const parser = models.get('parser');
  if (!parser || whole) return mask;
  const { transform, field } = await log.onnx('parser', parser, () =>
    parserField(parser, picture, face, signal),
  );
  return withinCrop(mask, transform, field);
}

function shapeOf({ mesh, five }: PlacedFace, template: TemplateName, whole: boolean): PasteMask {
  if (mesh && !whole) return outlineMask(mesh);
  return boxMask(alignFace(five, template, 256), 256, whole ? CROP_EDGE : undefined);
}

/**
 * Restricts a mask to where the swapper drew a face, if it says so. With the mask `parser`, restricts it to what the parser sees as face in the drawn crop, so that a new jaw may reach
 * beyond the old one (`create_region_mask` in FaceFusion's `face_masker.py`).
 */
export async function withinDrawn(
  models: Models,
  { choices }: OpenModel,
  mask: PasteMask,
  { transform, crop, drawn }: SwappedCrop,
  signal: AbortSignal,
  log: StageLog,
): Promise<PasteMask> {
  const within = drawn ? withinCrop(mask, transform, drawn) : mask;
  if (choices.mask !== 'parser') return within;
  const parser = models.need('parser');
  const field = await log.onnx('parser', parser, () => faceField(parser, crop, signal));
  const scale = (transform.scale * crop.width) / field.width;
  return withinCrop(within, { ...transform, scale }, field);
}
