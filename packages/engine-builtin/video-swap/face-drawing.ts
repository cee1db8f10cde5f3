import type { Gaze } from '@semblance/vision/gaze';
import type { FaceTexture } from './texture.ts';

/** One swap in one frame. */
export interface FaceDrawing {
  readonly points: Float32Array;
  /** Distance between the sides of the face, in pixels. */
  readonly width: number;
  readonly opacity: number;
  /** How far the right and the left eye are closed, 0–1. */
  readonly closed: readonly [number, number];
  /** Share of the frame's own eyes, 0–1. */
  readonly ownEyes: number;
  /** Where the face of the frame looks. */
  readonly gaze: Gaze;
  /** Moves of its jaw, as of `jawMoves`. */
  readonly jaw: Float32Array;
  /** Textures of the analysed frames before and after, of one size, and the frame's position between them. */
  readonly from: FaceTexture;
  readonly to: FaceTexture;
  readonly share: number;
}
