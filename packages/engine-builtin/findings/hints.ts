import type { Findings, Hint, LeftReason } from '@semblance/engine-api/findings';
import { yaw } from '@semblance/vision/face-finder';
import { type CropSource, centroid, type Face } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { COVERED_FACE, type Covered } from '../animate/covered.ts';
import { TURN_GAIN } from '../motion-transfer/measure.ts';
import type { ShownFeatures } from '../swap/shown-features.ts';
import type { SourceFace } from '../swap/source-face.ts';
import { looksDrawn } from './drawn.ts';
import { faceCounts, withBystanders } from './face-counts.ts';

/** An input by its role, and as a sentence names it. */
export interface Input {
  readonly role: string;
  readonly name: string;
}

/** Face width, in pixels, at which a source is looked at for hints alone. */
export const LOOKED_AT = 96;
/** Turn from which a face counts as turned, in degrees, and the step in which turns are told. */
const TURNED = 20;
const TURN_STEP = 5;
/** Distances of the eyes, in pixels: below the first a face is small, from the second on its features are clear. */
const SMALL = 36;
const CLEAR = 60;
/**
 * Share of a face from which it counts as covered. Of 236 portraits without glasses four reach it: three fringes and
 * a scarf.
 */
const COVERED = 0.2;
/** Share of a face in coloured light from which it is told. No portrait in even light reaches 0.11. */
const COLOURED = 0.15;
/** Certainty of a beard above which what looks covered may be the beard. */
const BEARDED = 0.5;
/** Share of the changed frames from which a face counts as seen for some time. */
const SEEN_LONG = 0.2;
/** Share of frames without a change from which it is told. */
const UNCHANGED = 0.05;

/**
 * Returns hints about the one face that a render takes from an input.
 * @param crops its pixels; undefined: only its mesh is looked at
 */
export function faceHints(face: Face, { role, name }: Input, crops?: CropSource): Hint[] {
  const hints: Hint[] = [];
  const degrees = (Math.abs(TURN_GAIN.yaw * yaw(face)) * 180) / Math.PI;
  if (degrees >= TURNED) {
    const about = TURN_STEP * Math.round(degrees / TURN_STEP);
    hints.push({
      code: 'face_turned',
      message: `The face in the ${name} is turned by about ${about} degrees. A picture from the front gives a better result.`,
      input: role,
    });
  }
  const right = centroid(face.points, RIGHT_EYE);
  const left = centroid(face.points, LEFT_EYE);
  const apart = Math.hypot(left.x - right.x, left.y - right.y) / Math.cos(yaw(face));
  if (apart < SMALL) {
    hints.push({
      code: 'face_small',
      message: `The face in the ${name} is small, with ${Math.round(apart)} pixels between the eyes. From ${CLEAR} pixels on its features are clear.`,
      input: role,
    });
  }
  if (crops && looksDrawn(crops, face)) {
    const message = `The face in the ${name} looks drawn. A photograph gives a better result.`;
    hints.push({ code: 'face_drawn', message, input: role });
  }
  return hints;
}

/** Returns the hint about an input of which one face is taken and that shows several; empty with one. */
export function severalFaces(count: number, { role, name }: Input): Hint[] {
  if (count < 2) return [];
  const message = `The ${name} shows ${count} faces, and the most prominent one was taken. A picture of one person leaves no doubt.`;
  return [{ code: 'several_faces', message, input: role }];
}

/**
 * Returns hints about an input in which no face could be used.
 * @param left why those that were found were left alone
 */
export function hintsOfLeft(left: readonly LeftReason[], { role, name }: Input): Hint[] {
  const hints: Hint[] = [];
  if (left.includes('turned_away')) {
    const message = `A face in the ${name} is turned too far to the side to be used. A view from the front is needed.`;
    hints.push({ code: 'face_turned', message, input: role });
  }
  if (left.includes('covered')) {
    const message = `What looks like a face in the ${name} is hidden too much to be used. A view that shows the whole face from the front is needed.`;
    hints.push({ code: 'face_covered', message, input: role });
  }
  return hints;
}

/** Returns the hint about a video in which something is in front of the mouth all the time. */
export function mouthCovered({ role, name }: Input): Hint[] {
  const message = `Something, such as a hand or a microphone, is always in front of the mouth in the ${name}. A ${name} that shows the whole face is needed.`;
  return [{ code: 'face_covered', message, input: role }];
}

/**
 * Returns what a search found in a still picture whose most prominent face is animated.
 * @param seen `faces` are undefined where no mesh is known
 * @param more `bends` tells that what is in front of the face moves like a part of it
 */
export function stillFindings(
  { faces, left }: { readonly faces: readonly (Face | undefined)[]; readonly left: readonly LeftReason[] },
  input: Input,
  {
    covered,
    bends = false,
    crops,
  }: {
    readonly covered?: Covered | undefined;
    readonly bends?: boolean;
    readonly crops?: CropSource;
  } = {},
): Findings {
  const [face] = faces;
  return {
    faces: faceCounts(Math.min(1, faces.length), withBystanders(left, Math.max(0, faces.length - 1))),
    hints:
      faces.length > 0
        ? [
            ...severalFaces(faces.length, input),
            ...(face ? faceHints(face, input, crops) : []),
            ...coveredStill(covered, bends, input),
          ]
        : hintsOfLeft(left, input),
  };
}

/** Returns the hint about something in front of a still's face. */
function coveredStill(covered: Covered | undefined, bends: boolean, { role, name }: Input): Hint[] {
  if (!covered || !isCovered(covered)) return [];
  const what = covered.mouth ? 'the mouth' : 'a part of the face';
  const still = covered.mouth
    ? 'which does not move'
    : 'which moves with the head only, and the head turns less';
  const effect = bends ? 'and may bend with the face' : still;
  const message = `Something, such as a hand or a microphone, is in front of ${what} in the ${name}, ${effect}. A picture that shows the whole face gives a better result.`;
  return [{ code: 'face_covered', message, input: role }];
}

function isCovered({ face, mouth }: Covered): boolean {
  return face >= COVERED_FACE || mouth;
}

/**
 * Returns hints about what hides or colours a source face.
 * @param covered what the network finds in front of it; undefined where hints about kept features tell that
 */
export function sourceHints(source: SourceFace, { role, name }: Input, covered?: Covered): Hint[] {
  const hints: Hint[] = [];
  const hidden = source.covered >= COVERED && source.beard < BEARDED;
  if (source.glasses) {
    hints.push({
      code: 'glasses',
      message: `The person in the ${name} wears glasses, which are left out. A picture without glasses gives a better likeness.`,
      input: role,
    });
  } else if (hidden || (covered && isCovered(covered))) {
    hints.push({
      code: 'face_covered',
      message: `Something, such as hair or a hand, covers a part of the face in the ${name}. A picture that shows the whole face gives a better likeness.`,
      input: role,
    });
  }
  if (source.colouredLight >= COLOURED) {
    hints.push({
      code: 'coloured_light',
      message: `A part of the face in the ${name} has another colour, as of coloured light or a mask. A picture in plain light that shows the whole face gives a better likeness.`,
      input: role,
    });
  }
  return hints;
}

const FEATURES = [
  ['mouth', 'mouth'],
  ['nose', 'nose'],
  ['right', 'right eye'],
  ['left', 'left eye'],
] as const;

/** Where features were kept, in words. */
const PICTURES = { often: '', where: 'in one of the two pictures' };
const FRAMES = { often: ' in most frames', where: 'there or in the face picture' };

/** Returns the hint about features that were not taken from the source, for one or more changed faces. */
export function keptFeatures(taken: readonly ShownFeatures[], { often, where } = PICTURES): Hint[] {
  const kept = FEATURES.flatMap(([feature, name]) =>
    taken.some((shares) => shares[feature] < 0.5) ? [name] : [],
  );
  if (kept.length === 0) return [];
  const names = kept.length === 1 ? kept[0] : `${kept.slice(0, -1).join(', ')} and ${kept.at(-1)}`;
  const [verb, why] =
    kept.length === 1 ? ['stays as it was', 'because it is'] : ['stay as they were', 'because they are'];
  const message = `The ${names} of a face ${verb}${often}, ${why} hidden or unclear ${where}. Pictures in which nothing is in front of the face give a better result.`;
  return [{ code: 'feature_kept', message }];
}

/**
 * Returns the same hint about a video: a feature counts as kept if it is in most frames of a face that is seen for some
 * time. What passes in front of a face, a blink or a turn does not count.
 * @param tracks the changed faces, with the mean of what was taken in their frames
 * @param frames number of frames with a changed face
 */
export function keptInFrames(
  tracks: readonly { readonly frames: number; readonly taken: ShownFeatures }[],
  frames: number,
): Hint[] {
  const long = tracks.filter((track) => track.frames >= SEEN_LONG * frames);
  return keptFeatures(
    long.map(({ taken }) => taken),
    FRAMES,
  );
}

/**
 * Returns the hint about frames that stay as they are.
 * @param what what they do not show, such as `face`
 */
export function framesUnchanged(
  { unchanged, frames }: { readonly unchanged: number; readonly frames: number },
  { role, name }: Input,
  what: string,
): Hint[] {
  if (unchanged <= UNCHANGED * frames) return [];
  const message = `${unchanged} of ${frames} frames of the ${name} show no ${what} that can be used. A ${name} that always shows one gives a better result.`;
  return [{ code: 'frames_unchanged', message, input: role }];
}
