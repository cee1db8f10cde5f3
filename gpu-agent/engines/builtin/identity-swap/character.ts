import sharp from 'sharp';
import { RenderError } from '../../engine.ts';
import { readFace } from '../image/picture-file.ts';
import type { FaceFinder } from '../vision/face-finder.ts';
import type { Person, PersonFinder } from '../vision/person.ts';
import { type Picture, shrink } from '../vision/picture.ts';
import { type CharacterFace, readCharacterFace } from './character-face.ts';
import { scaledPerson } from './follow.ts';
import { findPerson } from './search.ts';

/** A person is looked for in a picture of at most this longer side: its networks see no more. */
const SEARCH_SIDE = 1280;
/** A picture with a cut-out leaves at least this share of its pixels empty; one with an unused alpha channel does not. */
const LEAST_EMPTY = 0.05;

/** The character's picture, and where the person is on it. */
export interface Character {
  readonly picture: Picture;
  readonly person: Person;
  /** How much of each pixel is there, 0–255, where the picture itself is a cut-out. */
  readonly alpha?: Uint8Array;
  /** Undefined where the picture shows no face. */
  readonly face?: CharacterFace;
}

/** @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large` */
export async function readCharacter(
  path: string,
  { people, faces }: { readonly people: PersonFinder; readonly faces: FaceFinder },
  checkpoint: () => void,
): Promise<Character> {
  const picture = await readFace(path, 'The character picture');
  checkpoint();
  const scale = Math.max(1, Math.max(picture.width, picture.height) / SEARCH_SIDE);
  const [width, height] = [picture.width, picture.height].map((side) =>
    Math.max(1, Math.round(side / scale)),
  );
  const small = scale > 1 ? shrink(picture, width as number, height as number) : picture;
  const found = await findPerson(people, small, checkpoint);
  if (!found) {
    throw new RenderError(
      'face_not_detected',
      'No person was found in the character picture (character_key).',
    );
  }
  const alpha = await readAlpha(path, picture);
  checkpoint();
  const person = scaledPerson(found, picture.width / small.width);
  const face = await readCharacterFace(picture, person, faces, checkpoint);
  return { picture, person, ...(alpha ? { alpha } : {}), ...(face ? { face } : {}) };
}

async function readAlpha(path: string, picture: Picture): Promise<Uint8Array | undefined> {
  if (!(await sharp(path).metadata()).hasAlpha) return undefined;
  const { data, info } = await sharp(path)
    .autoOrient()
    .toColourspace('srgb')
    .extractChannel('alpha')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true });
  if (info.width !== picture.width || info.height !== picture.height || info.channels !== 1) return undefined;
  let empty = 0;
  for (const value of data) if (value < 8) empty++;
  return empty > LEAST_EMPTY * data.length ? new Uint8Array(data) : undefined;
}
