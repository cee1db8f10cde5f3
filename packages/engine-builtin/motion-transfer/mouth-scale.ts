import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { middleGap, shapeLips } from '../animate/lips.ts';
import { drawPortrait, type Portrait, REST } from '../animate/portrait.ts';
import { refitFace } from './face-tracker.ts';
import { DriverReference } from './measure.ts';

const OPENINGS = [0, 0.05, 0.1, 0.16, 0.24, 0.34, 0.46];
/** Largest factor between the measured and the drawn opening. */
const MAX_CHANGE = 1.3;

/** Relation of a portrait's drawn and measured mouth; openings in IOD, at the middle. */
export interface MouthScale {
  /** Measured opening of the closed mouth. */
  readonly closed: number;
  /** Returns the opening to draw for a wanted measured opening. */
  readonly openFor: (seen: number) => number;
}

/**
 * Measures how a portrait's mouth is seen. The same mouth is measured differently on different faces, because of
 * beards, lips, light and resolution. So the portrait is drawn with several openings and measured like the driver.
 */
export async function measureMouth(
  portrait: Portrait,
  face: Face,
  finder: FaceFinder,
  checkpoint: () => void,
): Promise<MouthScale> {
  return mouthScaleOf(await lookAtMouth(portrait, face, finder, checkpoint));
}

/** Returns the measured opening for each opening that is tried. */
export async function lookAtMouth(
  portrait: Portrait,
  face: Face,
  finder: FaceFinder,
  checkpoint: () => void,
): Promise<number[]> {
  const reference = new DriverReference(face.points);
  const { width, height, rig } = portrait;
  const seen: number[] = [];
  let frame: Uint8Array | undefined;
  for (const open of OPENINGS) {
    checkpoint();
    const lips = shapeLips(rig.lips, { open, spread: 0, round: 0 });
    frame = drawPortrait(portrait, { ...REST, expression: { lips } }, frame);
    const image = { width, height, data: frame };
    const near = await refitFace(finder, image, face, 'once');
    const again = await refitFace(finder, image, near, 'both-ways');
    const gap = middleGap(reference.measure(again.points).lips);
    // A wider drawn mouth is never measured narrower, whatever a single fit says.
    seen.push(Math.max(gap, (seen.at(-1) ?? 0) + 1e-3));
  }
  return seen;
}

/** Converts the result of {@link lookAtMouth} into a scale. */
export function mouthScaleOf(seen: readonly number[]): MouthScale {
  const closed = seen[0] as number;
  const openFor = (gap: number): number => {
    if (gap <= closed) return 0;
    let k = 1;
    while (k < OPENINGS.length - 1 && gap > (seen[k] as number)) k++;
    const [a, b] = [seen[k - 1] as number, seen[k] as number];
    const [from, to] = [OPENINGS[k - 1] as number, OPENINGS[k] as number];
    const t = Math.min(1.5, (gap - a) / (b - a));
    return Math.min(from + (to - from) * t, gap * MAX_CHANGE);
  };
  return { closed, openFor };
}
