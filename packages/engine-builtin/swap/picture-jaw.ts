import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { sample } from '@semblance/vision/plane/plane';
import { frontalness, jawMoves } from './jaw.ts';
import { insideJaw, jawBox, moveJaw } from './move-jaw.ts';
import type { SourceFace } from './source-face.ts';
import type { SwapPlan } from './swap-plan.ts';

/**
 * Gives the jaw the source's proportions, except where something covers it, and in a picture that is transparent
 * there: the colours of what nobody sees would be drawn beside the jaw.
 */
export function takeJaw(
  picture: Picture,
  face: Face,
  source: SourceFace,
  { alpha, skin, ...grid }: SwapPlan,
): void {
  const share = frontalness(face) * skin.features.mouth;
  if (share === 0 || !opaque(picture, jawBox(face))) return;
  const moves = jawMoves(face, source.points).map((move) => move * share);
  moveJaw([{ ...picture, start: 0, pixels: 1 }], face, picture, moves, (n) => {
    const { x, y } = insideJaw(face, n);
    return sample(alpha, (x - grid.originX) / grid.scale, (y - grid.originY) / grid.scale);
  });
}

/** Returns whether all pixels of a part of a picture are opaque. */
function opaque({ data, width, height, channels }: Picture, box: ReturnType<typeof jawBox>): boolean {
  if (channels % 2 === 1) return true;
  const most = data instanceof Uint16Array ? 65_535 : 255;
  const endX = Math.min(width, Math.ceil(box.x + box.width));
  for (let y = Math.max(0, Math.floor(box.y)); y < Math.min(height, box.y + box.height); y++)
    for (let x = Math.max(0, Math.floor(box.x)); x < endX; x++)
      if (data[(y * width + x + 1) * channels - 1] !== most) return false;
  return true;
}
