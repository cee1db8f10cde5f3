import { RenderError } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, faceFromPoints } from '@semblance/vision/face-mesh';
import { readAlpha, readFace, readShown } from '@semblance/vision/image/picture-file';
import type { Person, PersonFinder } from '@semblance/vision/person';
import { shrink } from '@semblance/vision/picture';
import sharp from 'sharp';
import { faceFrame } from '../animate/face-frame.ts';
import { anglesOf } from '../animate/rotation.ts';
import { faceHints } from '../findings/hints.ts';
import { type CharacterFace, readCharacterFace } from './character-face.ts';
import { scaledPerson } from './follow.ts';
import { mayBeHuman } from './human.ts';
import { findPerson } from './search.ts';
import { showsHips, showsLegs, skeletonOf } from './skeleton.ts';

export const WHAT = 'The character picture';
const CHARACTER = { role: 'character', name: 'character picture' };
/** Longer side, in pixels, of the picture in which a person is searched for. The networks use no more. */
const SEARCH_SIDE = 1280;
/** Smallest share of empty pixels in a cut-out. A picture with an unused alpha channel has fewer. */
const LEAST_EMPTY = 0.05;

/** Largest size of a body that is drawn from a picture, in frame heights. */
export const MAX_OF_FRAME = 0.7;
/** Largest eye distance of a head that is drawn alone, in frame heights. */
const MAX_EYES = 0.35;
/** Least eye distance, in pixels, of a head that is drawn alone. */
const LEAST_EYES = 12;
/** Largest turn of a head that is drawn alone, in radians. Its picture shows too little of the far side. */
const MOST_TURN = 0.75;
/** Most that a head is enlarged. */
const MOST_ENLARGED = 6;
/** Ratio of picture size to drawn size above which the picture is scaled down. */
const LEAST_SHRUNK = 1.3;

/** The character's picture and the position of the person in it. */
export interface Character {
  readonly picture: Picture;
  readonly person: Person;
  /** Opacity of each pixel, 0–255, when the picture itself is a cut-out. */
  readonly alpha?: Uint8Array;
  /** Undefined when the picture shows no face. */
  readonly face?: CharacterFace;
  /** Whether only its head is drawn although the picture shows more. */
  readonly headOnly?: boolean;
}

/** Returns whether only the head is drawn, as of a picture that ends above the hips. */
export function showsHead(character: Character): character is Character & { readonly face: CharacterFace } {
  const { face, person, picture, headOnly } = character;
  return face !== undefined && (headOnly || !showsHips(skeletonOf(person.points), picture.height));
}

/** Returns whether the head may be drawn alone; of a picture with knees the body always is. */
export function mayBeHead(character: Character): boolean {
  if (showsHead(character)) return true;
  return !showsLegs(skeletonOf(character.person.points)) && headRefusal(character) === undefined;
}

/**
 * Returns the character as it is drawn on a person whose legs are seen or not: a picture that ends above the knees
 * would leave such a person in two halves, so only its head is drawn, where that is possible.
 */
export function drawnOn(character: Character, { legs }: { readonly legs: boolean }): Character {
  return legs && !showsHead(character) && mayBeHead(character) ? { ...character, headOnly: true } : character;
}

/** Returns hints about the face of a character. */
export function characterHints({ face, picture }: Pick<Character, 'face' | 'picture'>): Hint[] {
  return face ? faceHints(faceFromPoints(face.points, 1), CHARACTER, cropsOf(picture)) : [];
}

/**
 * Finds the person in the visible part of the picture; erased (transparent) people do not count.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function readCharacter(
  path: string,
  { people, faces }: { readonly people: PersonFinder; readonly faces: FaceFinder },
  checkpoint: () => void,
): Promise<Character> {
  const picture = await readShown(path, WHAT);
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
  const alpha = await alphaOf(path, picture);
  checkpoint();
  const person = scaledPerson(found, picture.width / small.width);
  const face = await readCharacterFace(picture, person, faces, checkpoint);
  if (!face) await refuseAnimal(small, found, { people, faces, checkpoint });
  // A cut-out needs its colours without a background: white would bleed into its edge.
  const own = alpha ? { picture: await readFace(path, WHAT), alpha } : { picture };
  const character = { ...own, person, ...(face ? { face } : {}) };
  refuseUnplaceable(character);
  return character;
}

/** Refuses a picture that shows an animal, in which the networks for people find bodies. */
async function refuseAnimal(
  picture: Picture,
  person: Person,
  tools: { readonly people: PersonFinder; readonly faces: FaceFinder; readonly checkpoint: () => void },
): Promise<void> {
  const { left } = await tools.faces.look(picture, tools.checkpoint);
  if (left.includes('not_a_person'))
    throw new RenderError(
      'face_not_detected',
      'What looks like a face in the character picture (character_key) is none of a person.',
    );
  if (await mayBeHuman(picture, person, tools)) return;
  throw new RenderError(
    'face_not_detected',
    'What was found in the character picture (character_key) is no person: it has no human face, and no human body fits it.',
  );
}

/**
 * Refuses a picture that shows too little: neither a whole trunk nor a face that can be drawn. The refusal has the hints
 * about the face.
 */
export function refuseUnplaceable(character: Character): void {
  if (showsHips(skeletonOf(character.person.points), character.picture.height)) return;
  const message = headRefusal(character);
  if (message === undefined) return;
  throw new RenderError('face_not_detected', message, { findings: { hints: characterHints(character) } });
}

/** Returns why the head of a picture cannot be drawn alone; undefined where it can. */
function headRefusal({ picture, face }: Character): string | undefined {
  if (!face) return 'The character picture (character_key) ends above the hips and shows no face.';
  const { iod, origin, axes } = faceFrame(face.points);
  const [x, y] = origin;
  const { yaw } = anglesOf(axes);
  if (Math.abs(yaw) > MOST_TURN) {
    return (
      `The face in the character picture (character_key) is turned by about ${Math.round((Math.abs(yaw) * 18) / Math.PI) * 10} degrees. ` +
      'A picture from the front can be drawn.'
    );
  }
  if (x < 0.8 * iod || x > picture.width - 0.8 * iod || y < 0.65 * iod || y > picture.height - 1.5 * iod) {
    return 'The face in the character picture (character_key) is cut off by the border of the picture.';
  }
  if (iod < LEAST_EYES) {
    return (
      `The face in the character picture (character_key) is too small: ${Math.round(iod)} pixels between the eyes, ` +
      `at least ${LEAST_EYES} are needed.`
    );
  }
  return undefined;
}

/**
 * Refuses a head that would be a blur on the person.
 * @param face points of the person's face, in pixels of the frame
 * @param hints what was found out about the character's picture before it was made smaller
 * @throws RenderError `processing_failed`
 */
export function refuseBlur(character: Character, face: Float32Array, hints: readonly Hint[]): void {
  if (!showsHead(character)) return;
  const [own, drawn] = [faceFrame(character.face.points).iod, faceFrame(face).iod];
  if (drawn <= MOST_ENLARGED * own) return;
  throw new RenderError(
    'processing_failed',
    `The face in the character picture (character_key) is too small for this video: ${Math.round(own)} pixels ` +
      `between the eyes, at least ${Math.ceil(drawn / MOST_ENLARGED)} are needed.`,
    { findings: { hints } },
  );
}

/**
 * Returns the character in a picture no larger than needed, because threads copy it and keep it for the whole
 * video.
 * @param frameHeight height of the frames, in pixels
 */
export async function fittedTo(character: Character, frameHeight: number): Promise<Character> {
  const { picture, person, alpha, face, headOnly } = character;
  const by = showsHead(character)
    ? faceFrame(character.face.points).iod / (MAX_EYES * frameHeight)
    : skeletonOf(person.points).size / (MAX_OF_FRAME * frameHeight);
  if (by < LEAST_SHRUNK || picture.data instanceof Uint16Array) return character;
  const width = Math.max(1, Math.round(picture.width / by));
  const height = Math.max(1, Math.round(picture.height / by));
  const resize = async (data: Uint8Array, channels: Picture['channels']): Promise<Uint8Array> => {
    const whole = sharp(data, { raw: { width: picture.width, height: picture.height, channels } });
    // sharp treats a single channel as grey and returns RGB unless grey is requested.
    const space = channels === 1 ? 'b-w' : 'srgb';
    const small = await whole.resize(width, height, { fit: 'fill' }).toColourspace(space).raw().toBuffer();
    if (small.length !== width * height * channels)
      throw new Error(`${small.length} bytes came of ${width} × ${height} pixels of ${channels}`);
    return new Uint8Array(small.buffer, small.byteOffset, small.length);
  };
  const scale = width / picture.width;
  return {
    picture: { ...picture, width, height, data: await resize(picture.data, picture.channels) },
    person: scaledPerson(person, scale),
    ...(alpha ? { alpha: await resize(alpha, 1) } : {}),
    ...(headOnly ? { headOnly } : {}),
    ...(face ? { face: { ...face, points: face.points.map((value) => value * scale) } } : {}),
  };
}

async function alphaOf(path: string, picture: Picture): Promise<Uint8Array | undefined> {
  const alpha = await readAlpha(path, WHAT);
  if (!alpha || alpha.width !== picture.width || alpha.height !== picture.height || alpha.channels !== 1)
    return undefined;
  let empty = 0;
  for (const value of alpha.data) if (value < 8) empty++;
  return empty > LEAST_EMPTY * alpha.data.length ? alpha.data : undefined;
}
