import type { FaceTexture } from './texture.ts';

/** One swap of one frame. */
export interface FaceDrawing {
  readonly points: Float32Array;
  /** Distance between the sides of the face, pixels. */
  readonly width: number;
  readonly opacity: number;
  /** How far the right and the left eye are closed, from 0 to 1. */
  readonly closed: readonly [number, number];
  /** The textures of the analysed frames before and after, of one size, and how far the frame is from one to the other. */
  readonly from: FaceTexture;
  readonly to: FaceTexture;
  readonly share: number;
}
