import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb, type Point, squareCrop, toPicture } from '@semblance/vision/picture';
import type { FloatTensor } from '../sessions/protocol.ts';
import { fiveOf68 } from '../vision/align.ts';
import { toPlanes } from '../vision/tensors.ts';
import type { FoundFace } from './detector.ts';
import type { OpenModel } from './models.ts';

const SIZE = 256;
/** Length of the longer side of the box in the crop, in pixels. */
const BOX_IN_CROP = 195;
const GRID = 64;

/**
 * Returns five points of a face from the 68 points of a landmark network, more precise than a detector's.
 * @returns undefined when the network is not certain
 */
export async function refineFive(
  landmarks: OpenModel,
  picture: Picture,
  face: FoundFace,
  signal: AbortSignal,
): Promise<readonly Point[] | undefined> {
  const [right, left] = face.five as readonly [Point, Point];
  const angle = Math.atan2(left.y - right.y, left.x - right.x);
  const center = { x: face.x + face.width / 2, y: face.y + face.height / 2 };
  const side = (Math.max(face.width, face.height) * SIZE) / BOX_IN_CROP;
  const crop = squareCrop(center, side, angle, SIZE);
  const outputs = await landmarks.runAll(
    { input: toPlanes(cropRgb(picture, crop, SIZE, SIZE), landmarks.traits) },
    signal,
  );
  const { data } = outputs.points as FloatTensor;
  if (certainty((outputs.heatmaps as FloatTensor).data) < (landmarks.options.score ?? 0.5)) return undefined;
  const unit = SIZE / GRID;
  const points = Array.from({ length: 68 }, (_, i) =>
    toPicture(crop, (data[i * 3] as number) * unit, (data[i * 3 + 1] as number) * unit),
  );
  return fiveOf68(points);
}

/** Returns the mean over the points of the peak of each heat map; 0.9 counts as certain. */
function certainty(maps: Float32Array): number {
  const each = GRID * GRID;
  let sum = 0;
  for (let i = 0; i < 68; i++) {
    let peak = 0;
    for (let k = i * each; k < (i + 1) * each; k++) peak = Math.max(peak, maps[k] as number);
    sum += peak;
  }
  return Math.min(1, sum / 68 / 0.9);
}
