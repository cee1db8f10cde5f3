import type { Rect } from '@semblance/media/yuv';
import type { Frame } from '../video-swap/frame-part.ts';
import type { PlacedFace } from '../video-swap/track.ts';

/** Draws the new face onto the faces of one stream. */
export interface FrameSwaps {
  /**
   * @param ms arrival time of the frame
   * @returns the parts of the frame that were drawn into
   */
  draw(frame: Frame, faces: readonly PlacedFace[], ms: number): Promise<Rect[]>;
  close(): void;
}
