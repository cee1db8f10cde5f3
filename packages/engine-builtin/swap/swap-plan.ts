import type { Plane } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { LightField } from './light.ts';
import type { Tone } from './tone.ts';

/** Everything known about one swap on the work grid, ready to be composed. */
export interface SwapPlan {
  /** Top left corner of the work grid in the picture, and picture pixels per work pixel. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
  /** States where each point of the mesh comes to lie on the work grid, x and y. */
  readonly mixed: Float32Array;
  /** States where the source's patch shows what belongs at each work pixel. */
  readonly direct: WarpMap;
  /** States where, on the work grid, the target shows what belongs at each work pixel once its features have moved. */
  readonly own: WarpMap;
  /** Share of the swapped face in the result. */
  readonly alpha: Plane;
  /** Within the face, share of the target's own (moved) pixels: inside of the mouth, brows the source does not show. */
  readonly keep: Plane;
  /** 1 inside the eyes, and on the lips. */
  readonly eyes: Plane;
  readonly lips: Plane;
  /** 1 on eyes, brows, lips and nostrils. */
  readonly features: Plane;
  /** How much of the picture's own fine texture the new face gets, in [0, 1]. */
  readonly grainShare: number;
  readonly light: LightField;
  /** Set when the target has no colours of its own. */
  readonly tone: Tone | undefined;
  /** Share of each work pixel that something in front of the target's face covers. */
  readonly covered: Plane;
}
