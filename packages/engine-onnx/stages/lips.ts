import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_BROW, RIGHT_BROW } from '@semblance/vision/face-regions';
import { type CropTransform, cropRgb, squareCrop, toCrop } from '@semblance/vision/picture';
import { plane, smoothstep } from '@semblance/vision/plane/plane';
import { BANDS, WINDOW_COLUMNS } from '../sound/mel.ts';
import { outlineMask, withinCrop, withinEdge } from '../vision/face-mask.ts';
import { type PasteMask, pasteBack } from '../vision/paste.ts';
import { fromPlanes, toPlanes } from '../vision/tensors.ts';
import type { OpenModel } from './models.ts';

const SIZE = 96;
/** The network draws the lower half of its crop. The new content fades in between these shares of the crop. */
const FADE = [0.5, 0.6] as const;

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
  const transform = mouthCrop(face);
  const seen = toPlanes(cropRgb(picture, transform, SIZE, SIZE), lips.traits);
  const half = (SIZE * SIZE) / 2;
  const target = new Float32Array(2 * seen.data.length);
  // The network takes the crop without its lower half, which it draws, and then the whole crop for the look.
  for (let c = 0; c < 3; c++) target.set(seen.data.subarray(c * 2 * half, c * 2 * half + half), c * 2 * half);
  target.set(seen.data, seen.data.length);
  const output = await lips.run(
    {
      source: { data: mel, dims: [1, 1, BANDS, WINDOW_COLUMNS] },
      target: { data: target, dims: [1, 6, SIZE, SIZE] },
    },
    signal,
  );
  const field = plane(SIZE, SIZE);
  for (let y = 0; y < SIZE; y++) {
    field.data.fill(smoothstep(FADE[0], FADE[1], (y + 0.5) / SIZE), y * SIZE, (y + 1) * SIZE);
  }
  const mask = withinEdge(withinCrop(outlineMask(face), transform, field), transform, SIZE);
  pasteBack(picture, fromPlanes(output, lips.traits), transform, mask);
  return mask;
}

/**
 * Returns the square from the brows to the chin, rotated with the head, like the boxes with which the network was
 * trained.
 */
function mouthCrop(face: Face): CropTransform {
  const upright: CropTransform = { scale: 1, angle: face.roll, originX: 0, originY: 0 };
  const place = (index: number) => {
    const { x, y } = pointOf(face.points, index);
    return toCrop(upright, x, y);
  };
  const oval = FACE_OVAL.map(place);
  const brows = [...RIGHT_BROW, ...LEFT_BROW].map(place);
  const left = Math.min(...oval.map(({ x }) => x));
  const right = Math.max(...oval.map(({ x }) => x));
  const top = Math.min(...brows.map(({ y }) => y));
  const bottom = Math.max(...oval.map(({ y }) => y));
  const [u, v] = [(left + right) / 2, (top + bottom) / 2];
  const cos = Math.cos(face.roll);
  const sin = Math.sin(face.roll);
  const side = Math.max(right - left, bottom - top);
  return squareCrop({ x: cos * u - sin * v, y: sin * u + cos * v }, side, face.roll, SIZE);
}
