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
 * Returns whether a face is a drawing in even colours, such as a cartoon: photographs hardly have even areas next to sharp
 * edges. Paintings and shaded drawings have grain as photographs do, and are not told from them.
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
  return free > LEAST_FREE * all && even > LEAST_EVEN * free && edges > LEAST_EDGES * all;
}
