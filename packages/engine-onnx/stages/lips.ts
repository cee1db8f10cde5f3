import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { type CropTransform, cropRgb, toCrop, toPicture } from '@semblance/vision/picture';
import { plane, smoothstep } from '@semblance/vision/plane/plane';
import { fiveOf } from '../face-places.ts';
import type { FloatTensor } from '../sessions/protocol.ts';
import { BANDS, WINDOW_COLUMNS } from '../sound/mel.ts';
import { alignFace } from '../vision/align.ts';
import { boxMask, CROP_EDGE, outlineMask, withinCrop, withinEdge } from '../vision/face-mask.ts';
import { type PasteMask, pasteBack } from '../vision/paste.ts';
import { resized } from '../vision/resize.ts';
import { fromPlanes, toPlanes } from '../vision/tensors.ts';
import type { OpenModel } from './models.ts';

const SIZE = 96;
/** The network draws the lower half of its crop. The new content fades in between these shares of the crop. */
const FADE = [0.5, 0.6] as const;
/**
 * How far the chin may fall when the mouth opens, as a share of the face's height: about the 10 pixels below the box that
 * `inference.py` of Rudrabha/Wav2Lip adds by default (`--pads`), in faces of 170 pixels.
 */
const CHIN_ROOM = 0.06;

/**
 * Gives a face the mouth for a window of sound, in place.
 * @param mel 80 × 16 values
 * @returns the changed part
 */
export async function speak(
  lips: OpenModel,
  picture: Picture,
  face: Face,
  mel: Float32Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<PasteMask> {
  const source = { data: mel, dims: [1, 1, BANDS, WINDOW_COLUMNS] };
  if (lips.traits.template) return speakWhole(lips, picture, face, source, signal);
  const { transform, width, height, room } = trainedBox(face);
  const seen = toPlanes(resized(cropRgb(picture, transform, width, height), SIZE, SIZE), lips.traits);
  const half = (SIZE * SIZE) / 2;
  const target = new Float32Array(2 * seen.data.length);
  // The network takes the crop without its lower half, which it draws, and then the whole crop for the look.
  for (let c = 0; c < 3; c++) target.set(seen.data.subarray(c * 2 * half, c * 2 * half + half), c * 2 * half);
  target.set(seen.data, seen.data.length);
  const output = await lips.run({ source, target: { data: target, dims: [1, 6, SIZE, SIZE] } }, signal);
  const field = plane(width, height);
  for (let y = 0; y < height; y++) {
    field.data.fill(smoothstep(FADE[0], FADE[1], (y + 0.5) / height), y * width, (y + 1) * width);
  }
  const mask = withinEdge(withinCrop(outlineMask(face, room), transform, field), transform, width, height);
  pasteBack(picture, resized(fromPlanes(output, lips.traits), width, height), transform, mask);
  return mask;
}

/** Lets a network draw the whole aligned face, as in `sync_lip` of FaceFusion's `lip_syncer/core.py`. */
async function speakWhole(
  lips: OpenModel,
  picture: Picture,
  face: Face,
  source: FloatTensor,
  signal: AbortSignal,
): Promise<PasteMask> {
  const { size = 256, template = 'ffhq_512' } = lips.traits;
  const transform = alignFace(fiveOf(face), template, size);
  const target = toPlanes(cropRgb(picture, transform, size, size), lips.traits);
  const dims = lips.model.inputs.find(({ role }) => role === 'weight')?.dims ?? [1];
  const weight = { data: Float32Array.of(lips.options.weight ?? 0.5), dims };
  const output = await lips.run({ source, target, weight }, signal);
  const mask = withinEdge(boxMask(transform, size, CROP_EDGE), transform, size);
  pasteBack(picture, fromPlanes(output, lips.traits), transform, mask);
  return mask;
}

interface TrainedBox {
  readonly transform: CropTransform;
  /** Its size in crop pixels; the shorter side is that of the network's input. */
  readonly width: number;
  readonly height: number;
  /** What it has below the chin, in pixels of the picture. */
  readonly room: number;
}

/**
 * Returns the box from the forehead to the chin and from cheek to cheek, rotated with the head. The network was
 * trained on the whole boxes of a face detector, each squeezed into a square (`preprocess.py` and `datagen` in
 * `inference.py` of Rudrabha/Wav2Lip), so it expects the mouth where it lies in such a box. Below the chin there is room for
 * it to fall.
 */
function trainedBox(face: Face): TrainedBox {
  const upright: CropTransform = { scale: 1, angle: face.roll, originX: 0, originY: 0 };
  const oval = FACE_OVAL.map((index) => {
    const { x, y } = pointOf(face.points, index);
    return toCrop(upright, x, y);
  });
  const left = Math.min(...oval.map(({ x }) => x));
  const right = Math.max(...oval.map(({ x }) => x));
  const top = Math.min(...oval.map(({ y }) => y));
  const chin = Math.max(...oval.map(({ y }) => y));
  const room = CHIN_ROOM * (chin - top);
  const bottom = chin + room;
  const scale = Math.max(1e-3, Math.min(right - left, bottom - top)) / SIZE;
  const { x: originX, y: originY } = toPicture(upright, left, top);
  return {
    transform: { scale, angle: face.roll, originX, originY },
    width: Math.round((right - left) / scale),
    height: Math.round((bottom - top) / scale),
    room,
  };
}
