/** What is measured of every animated still. */
export interface AnimationMeasures {
  /** Share of the frames in which the face is found again. */
  readonly found: number;
  /** Largest change of a part of the background far from the head, levels. */
  readonly background: number;
  /** The same beside the head, where the still shows the background too. */
  readonly beside: number;
  /** Longest stray edges in the background beside the head, in eye distances. */
  readonly edges: number;
  /** Largest jump between neighbouring parts of the clothes, in eye distances. */
  readonly shoulders: number;
  /**
   * Rise of the mean distance between the mesh and the landmarks of a detector that the engine does not use, against
   * the still, % of the face's width.
   */
  readonly landmarks: number;
  /** Of all open mouths the 80th percentile: how much darker than the still's face, and lighter than its whites, L*. */
  readonly dark: number | undefined;
  readonly bright: number | undefined;
  /** Of all open mouths the 80th percentile: share of the inside that has one tone. */
  readonly flat: number | undefined;
  /** Area of teeth between lips that are told to be closed, beyond that of the still, in squared face widths. */
  readonly shut: number;
  /** Area of teeth against the still's where the mouth is as open as in the still. */
  readonly teeth: number | undefined;
  /** How much more a region's colour steps from frame to frame than the driver's, Lab. */
  readonly flicker: number;
}

/** What is measured of Motion Transfer too, between a driver and the same one that begins in a smile. */
export interface MotionMeasures extends AnimationMeasures {
  /** Mean distance of the mesh's points at the same frames of the driver, % of the eye distance. */
  readonly cutPoints: number;
  /** Mean difference of the face at these frames, levels. */
  readonly cutPixels: number;
}

/** What is measured of Avatar too. */
export interface AvatarMeasures extends AnimationMeasures {
  /** Mean width of the mouth while it speaks against the still's; undefined where the still does not smile. */
  readonly smile: number | undefined;
  /** Largest opening of the mouth in a pause beyond the still's, as a share of the distance of the eyes' corners. */
  readonly pause: number | undefined;
  /** Blinks in ten seconds. */
  readonly blinks: number;
  /** Farthest way of the bridge of the nose, in eye distances. */
  readonly head: number;
}
