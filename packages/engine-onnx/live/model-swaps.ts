import type { FrameSwaps } from '@semblance/engine-builtin/live-swap/frame-swaps';
import { JPEG_COLORS } from '@semblance/engine-builtin/live-swap/planes';
import type { Rect } from '@semblance/media/yuv';
import { fiveOf, placedAt } from '../face-places.ts';
import type { FaceSwap, Identity } from '../face-swap.ts';
import { StageLog } from '../stages/models.ts';
import { editAround } from '../vision/frame-edit.ts';

/** Aborted never: a picture that was begun is finished. */
const NEVER = new AbortController().signal;

/** Draws the new face onto the faces of one stream with the owner's models: in every picture, whatever came before. */
export class ModelSwaps implements FrameSwaps {
  readonly #swap: FaceSwap;
  readonly #identity: Identity;

  constructor(swap: FaceSwap, identity: Identity) {
    this.#swap = swap;
    this.#identity = identity;
  }

  async draw(...[frame, faces]: Parameters<FrameSwaps['draw']>): Promise<Rect[]> {
    const drawn: Rect[] = [];
    // One after the other, because faces may overlap.
    for (const { face, opacity } of faces) {
      await editAround(frame, face, JPEG_COLORS, async (picture, mesh, rect) => {
        drawn.push(rect);
        const placed = { ...placedAt(mesh, fiveOf(mesh)), opacity };
        await this.#swap.swapFaces(picture, [placed], this.#identity, NEVER, new StageLog());
      });
    }
    return drawn;
  }

  close(): void {}
}
