import type { Picture } from '@semblance/engine-api/picture';
import { distance, dlibJudge } from '@semblance/testkit/quality/judge';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import type { Plane } from '@semblance/vision/plane/plane';
import { figure } from '../lib/section.ts';
import { landmarkDistance } from '../motion/landmark-judge.ts';
import { cell } from '../photo-swap/contact-sheet.ts';
import type { Case } from './case.ts';
import { drawSwap } from './drawn-swap.ts';
import { hides } from './face-areas.ts';
import { failures, type Measures, measure } from './measures.ts';

/** Networks that find and judge faces. */
export interface Judges {
  readonly finder: FaceFinder;
  readonly identity: Awaited<ReturnType<typeof dlibJudge>>;
  readonly landmarks: Awaited<ReturnType<typeof landmarkDistance>>;
}

export async function openJudges(): Promise<Judges> {
  const [blazeface, facemesh, face_cover, face_features, faceres, identity, landmarks] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_cover'),
    openSession('face_features'),
    openSession('faceres'),
    dlibJudge(),
    landmarkDistance(),
  ]);
  const recogniser = async (): Promise<FaceRecogniser> => new FaceRecogniser(faceres);
  const sessions = { blazeface, facemesh, face_cover, face_features, recogniser };
  return { finder: new FaceFinder(sessions), identity, landmarks };
}

/** A swap of two pictures that is to be judged. */
export interface Swap {
  readonly kind: string;
  readonly label: string;
  readonly source: Picture;
  readonly target: Picture;
  /** Share of each target pixel that an object in front covers. */
  readonly occluder?: Plane | undefined;
  /** The source without the object in front of it. */
  readonly bareSource?: Picture | undefined;
}

/** Swaps and measures. */
export async function judgeSwap(swap: Swap, judges: Judges): Promise<Case> {
  const { source, target, occluder, bareSource } = swap;
  const { finder } = judges;
  const from = await firstFace(source, finder);
  const face = await firstFace(target, finder);
  const place = { kind: swap.kind, label: swap.label };
  if (!face || !from) {
    // An object that covers most of a face may hide it; then nothing is painted, and nothing is charged.
    const hidden = occluder !== undefined || bareSource !== undefined;
    const faults = hidden ? [] : [`no face found in the ${face ? 'source' : 'target'}`];
    const seen = [from && (await cell(source, from)), face && (await cell(target, face))];
    const cells = seen.filter((one) => one !== undefined);
    return { ...place, measures: undefined, likeness: undefined, worst: hidden ? 0 : 1, faults, cells };
  }
  const to = { picture: target, face };
  const { after, moved, still, placed, glasses } = await drawSwap(
    { picture: source, face: from },
    to,
    finder,
  );
  const bareFace = bareSource && (await firstFace(bareSource, finder));
  const bare = bareFace && (await drawSwap({ picture: bareSource, face: bareFace }, to, finder)).still;
  const [anew, found] = [await finder.refit(target, face), await finder.refit(after, face)];
  const seen = (index: number): boolean => !hides(occluder, face, index);
  const measures = measure(
    { before: target, after, moved, still },
    { before: face, after: found, placed, anew },
    {
      landmarks: [await judges.landmarks(target, anew, seen), await judges.landmarks(after, found, seen)],
      occluder,
      bare,
    },
  );
  const likeness = distance(
    await judges.identity.describe(after, face),
    await judges.identity.describe(source, from),
  );
  const cells = [await cell(source, from), await cell(target, face), await cell(after, face)];
  return { ...place, measures, likeness, glasses, ...verdict(measures), cells };
}

/** Returns how far the worst measure is outside its limits, and all that are outside, in words. */
export function verdict(measures: Measures): Pick<Case, 'worst' | 'faults'> {
  const outside = failures(measures);
  return {
    worst: outside[0]?.by ?? 0,
    faults: outside.map(({ name }) => {
      const value = figure(measures[name] as number);
      return `${name} ${value}${name === 'patch' ? ` (${measures.patchAt})` : ''}`;
    }),
  };
}

/** Judges a picture that shows nobody: a face that is found in it would be painted over. */
export async function judgeNobody(
  { kind, label, target }: Pick<Swap, 'kind' | 'label' | 'target'>,
  { finder }: Judges,
): Promise<Case> {
  const face = await firstFace(target, finder);
  const place = { kind, label, measures: undefined, likeness: undefined };
  if (!face) return { ...place, worst: 0, faults: [], cells: [] };
  return { ...place, worst: 1, faults: ['a face was found'], cells: [await cell(target, face)] };
}

async function firstFace(picture: Picture, finder: FaceFinder): Promise<Face | undefined> {
  return (await finder.find(picture, () => undefined))[0];
}
