/** What is measured of every animated still. */
export interface AnimationMeasures {
  /** Share of the frames in which the face is found again. */
  readonly found: number;
  /** Largest change of a part of the background far from the head, levels. */
  readonly background: number;
  /** The same beside the head, where the still shows the background too. */
  readonly beside: number;
  /** Stray edges in the background beside the head, in eye distances: of the frames the most. */
  readonly edges: number;
  /** Largest jump between neighbouring parts of the clothes, in eye distances. */
  readonly shoulders: number;
  /** Points on the clothes that differ from all around them and from the still: of the frames the median. */
  readonly specks: number;
  /**
   * Rise of the mean distance between the mesh and the landmarks of a detector that the engine does not use, against
   * the still, % of the face's width.
   */
  readonly landmarks: number;
  /** Ratio of the face's edges, after to before: of the frames the median. */
  readonly sharpness: number;
  /** Of all open mouths the 80th percentile: how much darker than the still's face, and lighter than its whites, L*. */
  readonly dark: number | undefined;
  readonly bright: number | undefined;
  /** Of all open mouths the 80th percentile: share that has one dark tone, beyond that of the still's mouth. */
  readonly flat: number | undefined;
  /** Area of teeth between lips that are told to be closed, beyond that of the still, in squared face widths. */
  readonly shut: number;
  /** Area of teeth against the still's where the mouth is as open as in the still. */
  readonly teeth: number | undefined;
  /** How unsteady a region's colour is from frame to frame beyond the driver's, Lab. */
  readonly flicker: number;
}

/** What is measured of Motion Transfer besides, between a driver and the same one that begins in a smile. */
export interface CutMeasures {
  /** Mean distance of the mesh's points at the same frames of the driver, % of the eye distance. */
  readonly cutPoints: number;
  /** Mean difference of the face at these frames where it is laid over the other, levels. */
  readonly cutPixels: number;
}

/** What is measured of Avatar besides. */
export interface SpeechMeasures {
  /** Mean width of the mouth while it speaks against the still's; undefined where the still shows no teeth. */
  readonly smile: number | undefined;
  /** Largest opening of the mouth in a pause beyond the still's, as a share of the distance of the eyes' corners. */
  readonly pause: number | undefined;
  /** Blinks in ten seconds. */
  readonly blinks: number;
  /** Farthest way of the bridge of the nose, in eye distances. */
  readonly head: number;
}

type Measures = AnimationMeasures & Partial<CutMeasures & SpeechMeasures>;
export type MeasureName = keyof AnimationMeasures | keyof CutMeasures | keyof SpeechMeasures;

/**
 * A case is good within these limits. Each was chosen by looking at 24 animated portraits: what is written beside it
 * is what lies on both of its sides.
 */
export const ANIMATION_LIMITS: Readonly<Record<MeasureName, readonly [number, number]>> = {
  found: [0.98, 1],
  // Flags at rest reach 5 by the compression of the video, plain walls 1; bent by two pixels, flags reach 12.
  background: [0, 7],
  // Loose curls beyond the mask of the person reach 9; pieces of a flag that were made up beside a temple, 26.
  beside: [0, 10],
  // Clean outlines reach 0.15; a piece of flag that was made up beside a cheek, 1.6.
  edges: [0, 0.3],
  // Lapels, ties and necks bend by up to 0.055; a row of the jacket that stays while the next moves is at 0.1.
  shoulders: [0, 0.09],
  // Clean clothes have 0 to 2; a dotted line along the border of the moved part, 4 to 14.
  specks: [0, 3],
  // Turned heads with talking mouths reach 0.8; a face that comes apart is above 2.
  landmarks: [0, 1.5],
  // Frames of a video are resampled: 0.66 to 0.81. Less looks out of focus beside the clothes.
  sharpness: [0.6, 1.5],
  // The back of a mouth that is lit is up to 5 darker than all else in a bright face; a black hole, more than 10.
  dark: [0, 8],
  // Teeth that look like the still's are up to 5 lighter than what it shows of white; drawn ones that shine, 7 to 12.
  bright: [0, 6],
  // Mouths that show their teeth reach 0.2; a flat brown one that was drawn below few teeth is above.
  flat: [0, 0.24],
  // A line of a few pixels between lips says nothing.
  shut: [0, 0.006],
  // Teeth that stay are 0.65 to 1.1 of the still's; lips that close over them while the mouth is open, 0.3.
  teeth: [0.6, 1.6],
  // Glasses on a head that turns reach 1.8; another complexion in every fourth frame is at 4.
  flicker: [0, 2],
  // The noise of the mesh is 1.2; a smile that stays shut, or one that is taken for rest, is above 4.
  cutPoints: [0, 4],
  cutPixels: [0, 12],
  // A mouth that keeps its whole smile while it speaks is at 1.
  smile: [0.7, 0.985],
  // Mouths that return to the still's are within 0.03; one that stays open at a vowel is above 0.08.
  pause: [0, 0.04],
  // People who speak blink about three times.
  blinks: [1, 6],
  // Less looks like a picture, more like somebody who walks off.
  head: [0.03, 0.3],
};

/** Returns what is outside its limits, worst first, and how far the worst is. */
export function animationVerdict(measures: Partial<Measures>): {
  worst: number;
  faults: string[];
  names: MeasureName[];
} {
  const outside = (Object.keys(measures) as MeasureName[]).flatMap((name) => {
    const value = measures[name];
    if (value === undefined) return [];
    const [low, high] = ANIMATION_LIMITS[name];
    const by = value > high ? value / high - 1 : value < low ? low / Math.max(value, 1e-3) - 1 : 0;
    return by > 0 ? [{ by, name, text: `${name} ${value.toFixed(value < 1 ? 3 : 2)}` }] : [];
  });
  outside.sort((a, b) => b.by - a.by);
  return {
    worst: outside[0]?.by ?? 0,
    faults: outside.map(({ text }) => text),
    names: outside.map(({ name }) => name),
  };
}
