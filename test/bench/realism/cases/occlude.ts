import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { drawCaption } from './caption.ts';
import type { Occluded, Scene } from './composite.ts';
import { drawGlasses } from './eyewear.ts';
import { drawHair } from './hair.ts';
import { drawHand } from './hand-poses.ts';
import { HeadFrame } from './head-frame.ts';
import { measureLight } from './light.ts';
import { drawMask } from './mask.ts';
import { drawMicrophone } from './microphone.ts';
import { drawRealHand } from './real-hand.ts';
import { drawScarf } from './scarf.ts';
import { measureSharpness } from './sharpness.ts';
import { drawGlass, drawMug } from './vessels.ts';

type Draw = (scene: Scene) => Occluded | Promise<Occluded>;

const DRAWINGS = {
  'mask-white': (scene) => drawMask(scene, 'white'),
  'mask-black': (scene) => drawMask(scene, 'black'),
  'mask-blue': (scene) => drawMask(scene, 'blue'),
  'mask-skin': (scene) => drawMask(scene, 'skin'),
  'mask-patterned': (scene) => drawMask(scene, 'patterned'),
  'hand-mouth-own': (scene) => drawHand(scene, 'mouth', 'own'),
  'hand-mouth-other': (scene) => drawHand(scene, 'mouth', 'other'),
  'hand-cheek-own': (scene) => drawHand(scene, 'cheek', 'own'),
  'hand-cheek-other': (scene) => drawHand(scene, 'cheek', 'other'),
  'hand-eye-own': (scene) => drawHand(scene, 'eye', 'own'),
  'hand-eye-other': (scene) => drawHand(scene, 'eye', 'other'),
  microphone: drawMicrophone,
  mug: drawMug,
  'drinking-glass': drawGlass,
  'hair-over-eye': drawHair,
  sunglasses: (scene) => drawGlasses(scene, 'dark'),
  'clear-glasses': (scene) => drawGlasses(scene, 'clear'),
  caption: drawCaption,
  scarf: drawScarf,
  'half-rim-glasses': (scene) => drawGlasses(scene, 'half-rim'),
  'hand-mouth-real': (scene) => drawRealHand(scene, 'mouth'),
  'hand-eye-real': (scene) => drawRealHand(scene, 'eye'),
} satisfies Record<string, Draw>;

export type OccluderName = keyof typeof DRAWINGS;

/** Names of all objects that {@link occlude} draws. */
export const OCCLUDERS = Object.keys(DRAWINGS) as OccluderName[];

/**
 * Draws an object in front of a face, in the light, grain and sharpness of the picture. The seed varies its colour,
 * place and size; the same seed gives the same bytes.
 * @param picture RGB with 8 bits
 */
export async function occlude(
  name: OccluderName,
  picture: Picture,
  face: Face,
  seed: number,
): Promise<Occluded> {
  const head = new HeadFrame(face);
  const light = measureLight(picture, face, head);
  const sharpness = measureSharpness(picture, face);
  return DRAWINGS[name]({ picture, face, head, light, sharpness, seed });
}
