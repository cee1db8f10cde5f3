import type { Picture } from '@semblance/engine-api/picture';
import type { Point } from '@semblance/vision/picture';
import type { DrawnCrop } from '../stages/drawn-crop.ts';
import { alignFace } from '../vision/align.ts';
import { type HeadMotion, keyPointsOf } from './keypoints.ts';
import { DRAWN_SIZE, type LivePortrait, SEEN_SIZE } from './live-portrait.ts';

/** Template of the crop, as in FaceFusion's `expression_restorer/core.py`. */
const TEMPLATE = 'arcface_128';
/** Key points that belong to the shape of a face and so stay those of the swapped one (there). */
const SHAPE: ReadonlySet<number> = new Set([0, 4, 5, 8, 9]);

/**
 * Gives a swapped face the expression that the face had before, by LivePortrait: swappers often deaden eyes and
 * mouths. The head keeps the swapped face's pose, and the stitcher is not used, as in `apply_restore` of
 * FaceFusion's `expression_restorer/core.py`. There a factor of 80 is a share of 0.96 here.
 * @param picture with the swapped face
 * @param own motion of the face as it was; see {@link seeExpression}
 * @param share of the own expression, 0 to 1
 */
export async function restoreExpression(
  portrait: LivePortrait,
  picture: Picture,
  five: readonly Point[],
  own: HeadMotion,
  share: number,
): Promise<DrawnCrop> {
  const still = await portrait.seeStill(picture, alignFace(five, TEMPLATE, SEEN_SIZE), undefined);
  const wanted = keyPointsOf({
    ...still.motion,
    expression: mixedExpression(still.motion.expression, own.expression, share),
  });
  return {
    transform: alignFace(five, TEMPLATE, DRAWN_SIZE),
    crop: await portrait.drawMoved(still, wanted),
  };
}

/** Measures a face for {@link restoreExpression} before it is swapped. */
export function seeExpression(
  portrait: LivePortrait,
  picture: Picture,
  five: readonly Point[],
): Promise<HeadMotion> {
  return portrait.seeMotion(picture, alignFace(five, TEMPLATE, SEEN_SIZE));
}

function mixedExpression(swapped: Float32Array, own: Float32Array, share: number): Float32Array {
  return swapped.map((value, i) =>
    SHAPE.has(Math.floor(i / 3)) ? value : value + share * ((own[i] as number) - value),
  );
}
