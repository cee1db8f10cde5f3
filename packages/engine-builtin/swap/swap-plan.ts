import type { Plane } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import type { Grain } from './grain.ts';
import type { Channels, LightField } from './light.ts';
import type { ShownFeatures } from './shown-features.ts';
import type { Tone } from './tone.ts';

/**
 * How the source's features lie in the target's own skin. A pixel of the result is
 * `share · sharpness · source + (1 − share) · target + correction`.
 */
export interface SkinBlend {
  /** Share of the source's own pixels, 1 on its features. */
  readonly share: Plane;
  /** Factor on the source's finest detail, so that it is as sharp as the target's. */
  readonly sharpness: number;
  /** Share of each feature that is taken. */
  readonly features: ShownFeatures;
  /** Whether the target's brows stay because the source's are much fainter. */
  readonly browsKept: boolean;
  /** Red, green and blue that join the two without a seam at any scale. */
  readonly correction: Channels;
}

/** A swap on the work grid, ready to be composed. */
export interface SwapPlan {
  /** Top left corner of the work grid in the picture, and picture pixels per work pixel. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
  /** Position of each mesh point on the work grid, x and y. */
  readonly mixed: Float32Array;
  /** Share of the source in the place and shape of each feature. */
  readonly shape: ShownFeatures;
  /** For each work pixel, the place in the source's patch that belongs there. */
  readonly direct: WarpMap;
  /** For each work pixel, the place of the target that belongs there after its features have moved. */
  readonly own: WarpMap;
  /** Share of the new face in the result. */
  readonly alpha: Plane;
  /** 1 inside the eyes, and on the lips. */
  readonly eyes: Plane;
  readonly lips: Plane;
  /** 1 on eyes, brows, lips and nostrils. */
  readonly features: Plane;
  readonly grain: Grain;
  readonly light: LightField;
  readonly skin: SkinBlend;
  /** Whether the target wears a beard. */
  readonly bearded: boolean;
  /** Whether its moustache hangs over the upper lip. */
  readonly overLip: boolean;
  /** Defined when the target has a single tone. */
  readonly tone: Tone | undefined;
}
