import { blur, type Plane, shrinkPlane } from '@semblance/vision/plane/plane';

/** Scales that are blended on the work grid, and on a coarser grid, as shares of the face width. */
export const FINE_SCALES = [0.009, 0.018] as const;
export const COARSE_SCALES = [0.036, 0.072, 0.144] as const;
/** Factor by which that grid is coarser. */
export const COARSENESS = 2;
/** Coarsest scale at which eyes are the source's wholly, as a share of the face width: that of irises. */
const WHOLE_EYES = 0.08;

/** Shares of the source at each scale: softer the coarser the scale. */
export interface Masks {
  readonly fine: Plane;
  /** The last one is for what is coarser than all scales. */
  readonly coarse: readonly Plane[];
}

/**
 * Returns the share of the source at each scale. Where only the opening of an eye is taken, as behind glasses, soft
 * masks would wash out its iris, so within the eyes they stay as they are.
 * @param share of the source's own pixels
 * @param eyes 1 inside the eyes
 */
export function masksOf(share: Plane, eyes: Plane, faceWidth: number): Masks {
  const small = shrinkPlane(share, COARSENESS);
  const smallWidth = faceWidth / COARSENESS;
  const whole = shrinkPlane(eyes, COARSENESS);
  for (let i = 0; i < whole.data.length; i++)
    whole.data[i] = (whole.data[i] as number) * (small.data[i] as number);
  return {
    fine: blur(share, FINE_SCALES[0] * faceWidth),
    coarse: [FINE_SCALES[1], ...COARSE_SCALES].map((scale) => {
      const mask = blur(small, scale * smallWidth);
      if (scale > WHOLE_EYES) return mask;
      for (let i = 0; i < mask.data.length; i++)
        mask.data[i] = Math.max(mask.data[i] as number, whole.data[i] as number);
      return mask;
    }),
  };
}
