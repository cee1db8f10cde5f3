import type { Picture } from '@semblance/engine-api/picture';
import type { CropTransform, Point, RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane } from '@semblance/vision/plane/plane';
import type { TemplateName } from '../contracts/contract.ts';
import { alignFace } from '../vision/align.ts';
import { briefCrop } from '../vision/brief-crop.ts';
import { resized } from '../vision/resize.ts';
import { toInterleaved, toPlanes } from '../vision/tensors.ts';
import { PARSER_CLASSES } from './class-graph.ts';
import type { OpenModel } from './models.ts';

/** Skin, brows, eyes, glasses, nose, mouth and lips among the classes of a parser trained on CelebAMask-HQ. */
const FACE_CLASSES = new Set([1, 2, 3, 4, 5, 6, 10, 11, 12, 13]);
const inFace = Uint8Array.from({ length: PARSER_CLASSES }, (_, i) => (FACE_CLASSES.has(i) ? 1 : 0));
/** Softness of the edge, as a share of the crop. */
const EDGE = 0.01;

/** A field over a crop: 1 on the face, 0 on objects in front of it and on everything beside it. */
export interface CropField {
  readonly transform: CropTransform;
  readonly field: Plane;
}

/** Returns where nothing lies in front of the face, from an occlusion network. */
export async function occlusionField(
  occlusion: OpenModel,
  picture: Picture,
  face: { readonly five: readonly Point[]; readonly template: TemplateName },
  signal: AbortSignal,
): Promise<CropField> {
  const { traits } = occlusion;
  const { size = 256 } = traits;
  const transform = alignFace(face.five, face.template, size);
  const crop = briefCrop(picture, transform, size, size);
  const { data } = await occlusion.run({ input: toInterleaved(crop, traits) }, signal);
  const field = plane(size, size);
  for (let i = 0; i < field.data.length; i++) field.data[i] = Math.min(1, Math.max(0, data[i] as number));
  return { transform, field: sharpen(field) };
}

/** Returns where the face's own parts are, from a network that classifies each pixel. */
export async function parserField(
  parser: OpenModel,
  picture: Picture,
  face: { readonly five: readonly Point[] },
  signal: AbortSignal,
): Promise<CropField> {
  const { size = 512 } = parser.traits;
  // Such networks are trained on pictures with this template, independently of the swapper's template.
  const transform = alignFace(face.five, 'ffhq_512', size);
  // The crop is read before the first wait.
  return { transform, field: await faceField(parser, briefCrop(picture, transform, size, size), signal) };
}

/** Returns where the face's own parts are in a crop, which is enlarged to the size of the network. */
export async function faceField(parser: OpenModel, crop: RgbImage, signal: AbortSignal): Promise<Plane> {
  const { traits } = parser;
  const { size = 512 } = traits;
  const input = toPlanes(resized(crop, size, size), traits);
  const { data: classes } = await parser.run({ input }, signal);
  const field = plane(size, size);
  for (let i = 0; i < field.data.length; i++) field.data[i] = inFace[classes[i] as number] as number;
  return sharpen(field);
}

/** Makes a soft edge that lies inside: values up to a half become 0. */
function sharpen(field: Plane): Plane {
  const soft = blur(field, EDGE * field.width);
  for (let i = 0; i < soft.data.length; i++) soft.data[i] = 2 * Math.max(0, (soft.data[i] as number) - 0.5);
  return soft;
}
