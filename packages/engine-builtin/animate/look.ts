import { RenderError } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import { maskInPicture } from '@semblance/vision/person-mask';
import { type Input, stillFindings } from '../findings/hints.ts';
import type { RenderTools } from '../renderer.ts';
import { type Covered, coveredOf } from './covered.ts';

/** What networks see in a still; without it less is known. */
export interface Seen {
  /** The person, 0–255 for each pixel. */
  readonly person?: Uint8Array | undefined;
  readonly covered?: Covered | undefined;
}

let people: Promise<PersonFinder> | undefined;

/** Returns the finder of this thread, which all its renders share. */
export function peopleOf(): Promise<PersonFinder> {
  people ??= openPersonFinder().catch((error) => {
    people = undefined;
    throw error;
  });
  return people;
}

/** Looks for the person around a face, and for what is in front of it. */
export async function lookAround(
  picture: Picture,
  face: Face,
  finder: FaceFinder,
  checkpoint: () => void,
): Promise<Seen> {
  const cover = await finder.coverOf(cropsOf(picture), face);
  checkpoint();
  const person = await (await peopleOf()).find(picture);
  checkpoint();
  const mask = person && maskInPicture(person.mask, picture.width, picture.height);
  return {
    person: mask && shows(mask, picture, face) ? mask : undefined,
    covered: cover && coveredOf(cover, face),
  };
}

/** A still whose face is to be animated, and what was found out about it. */
export interface SeenStill {
  readonly picture: Picture;
  readonly face: Face;
  readonly around: Seen;
  readonly still: Findings;
}

/** Finds the most prominent face of a still, and what is around it. @throws RenderError `face_not_detected` */
export async function lookAtStill(
  picture: Picture,
  input: Input,
  { finder, checkpoint }: Pick<RenderTools, 'finder' | 'checkpoint'>,
): Promise<SeenStill> {
  checkpoint();
  const seen = await finder.look(picture, checkpoint);
  const [face] = seen.faces;
  if (!face) {
    const message = `No face was found in the ${input.name} (image_key).`;
    throw new RenderError('face_not_detected', message, { findings: stillFindings(seen, input) });
  }
  const around = await lookAround(picture, face, finder, checkpoint);
  return {
    picture,
    face,
    around,
    still: stillFindings(seen, input, { covered: around.covered, crops: cropsOf(picture) }),
  };
}

/** Whether a mask has the outline of a face: it may be that of somebody else. */
function shows(mask: Uint8Array, { width, height }: Picture, { points }: Face): boolean {
  const within = FACE_OVAL.filter((v) => {
    const x = Math.min(width - 1, Math.max(0, Math.floor(points[v * 3] as number)));
    const y = Math.min(height - 1, Math.max(0, Math.floor(points[v * 3 + 1] as number)));
    return (mask[y * width + x] as number) > 127;
  });
  return within.length > 0.7 * FACE_OVAL.length;
}
