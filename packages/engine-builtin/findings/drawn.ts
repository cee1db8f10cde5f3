import { coverCrop } from '@semblance/vision/face-cover';
import type { CropSource, Face } from '@semblance/vision/face-mesh';

/** Side of the crop of a face, in pixels, and its size in face widths. */
const SIZE = 128;
const CROP = 1;
/** Brightness outside which a pixel says nothing, because photographs are clipped there. */
const CLIPPED = [12, 243] as const;
/** Least share of pixels that say something. */
const LEAST_FREE = 0.4;
/** Differences of brightness across two pixels, below which a place is even, and above which it is an edge. */
const EVEN = 1;
const EDGE = 40;
/**
 * Shares of even places and of edges that a drawing reaches. Of 269 portraits none reaches both: plain, grey, blurred,
 * dark, overexposed, denoised, or as JPEG of quality 20; as JPEG of quality 5 one does.
 */
const LEAST_EVEN = 0.4;
const LEAST_EDGES = 0.05;
/**
 * Brightness of paper and of the ink beside it, their distance in pixels, and the share of such paper that line art, a
 * woodcut or a print of dots reaches. Of the portraits, plain and changed as above, sharpened or of strong contrast,
 * none reaches 0.16.
 */
const PAPER = 225;
const INK = 185;
const BESIDE = 2;
const LEAST_INKED = 0.2;

/**
 * Returns whether a face is a drawing in even colours, such as a cartoon, or in ink: photographs hardly have even areas next
 * to sharp edges, nor white beside dark everywhere. Paintings and soft pencil drawings are not told from photographs.
 */
export function looksDrawn(source: CropSource, face: Face): boolean {
  const rgb = source(coverCrop(face, CROP, SIZE), SIZE);
  const at = (i: number): number =>
    ((rgb[i * 3] as number) + (rgb[i * 3 + 1] as number) + (rgb[i * 3 + 2] as number)) / 3;
  let [all, free, even, edges] = [0, 0, 0, 0];
  for (let y = 1; y < SIZE - 1; y++) {
    for (let x = 1; x < SIZE - 1; x++) {
      const i = y * SIZE + x;
      const difference = Math.hypot(at(i + 1) - at(i - 1), at(i + SIZE) - at(i - SIZE));
      all++;
      if (difference > EDGE) edges++;
      if (at(i) < CLIPPED[0] || at(i) > CLIPPED[1]) continue;
      free++;
      if (difference < EVEN) even++;
    }
  }
  if (inkedShare(at) > LEAST_INKED) return true;
  return free > LEAST_FREE * all && even > LEAST_EVEN * free && edges > LEAST_EDGES * all;
}

/** Returns the share of pixels that are paper beside ink. */
function inkedShare(at: (i: number) => number): number {
  let inked = 0;
  for (let y = BESIDE; y < SIZE - BESIDE; y++) {
    for (let x = BESIDE; x < SIZE - BESIDE; x++) {
      if (at(y * SIZE + x) > PAPER && darkestBeside(at, x, y) < INK) inked++;
    }
  }
  return inked / (SIZE - 2 * BESIDE) ** 2;
}

function darkestBeside(at: (i: number) => number, x: number, y: number): number {
  let darkest = 255;
  for (let dy = -BESIDE; dy <= BESIDE; dy++)
    for (let dx = -BESIDE; dx <= BESIDE; dx++) darkest = Math.min(darkest, at((y + dy) * SIZE + x + dx));
  return darkest;
}
