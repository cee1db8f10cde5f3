import type { Frame } from './frame-part.ts';

/** Mesh points on bare skin: cheeks, nose, chin, between and above the brows. */
const SKIN = [
  ...[50, 101, 118, 117, 205, 36, 187, 147, 123, 207, 206, 203, 142, 126],
  ...[280, 330, 347, 346, 425, 266, 411, 376, 352, 427, 426, 423, 371, 355],
  ...[6, 197, 195, 5, 4, 9, 151, 8, 108, 337, 69, 299, 199, 200, 175, 208, 428],
];

/** Returns the mean brightness of a face's skin, in the video's own levels. */
export function skinLevel({ width, height, data }: Frame, points: Float32Array): number {
  let sum = 0;
  let count = 0;
  for (const index of SKIN) {
    const px = Math.floor(points[index * 3] as number);
    const py = Math.floor(points[index * 3 + 1] as number);
    if (px < 1 || py < 1 || px >= width - 1 || py >= height - 1) continue;
    const at = py * width + px;
    // Averages nine pixels, against noise.
    for (let row = at - width; row <= at + width; row += width) {
      sum += (data[row - 1] as number) + (data[row] as number) + (data[row + 1] as number);
    }
    count += 9;
  }
  return count > 0 ? sum / count : 0;
}
