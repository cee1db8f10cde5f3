/**
 * The people of a picture or video, as an engine finds them before a render, and what a render is told of whom it
 * gives which face.
 */

/** Most people that are told of one file. */
export const MAX_PEOPLE = 12;
/** Most entries of a mapping. */
export const MAX_MAPPED = 10;
/** Values of a descriptor, each a signed byte. */
export const LOOK_VALUES = 1024;
/** Name of the parameter with the mapping of a render, a {@link FaceMapping} as JSON. */
export const FACES_PARAMETER = 'faces';

/** Why a face cannot be used. The codes are stable, and more may come. */
export const UNSUITABLE = {
  bystander: 'The picture shows a more prominent face, which is taken.',
  face_small: 'The face has too few pixels.',
  face_turned: 'The face is turned too far to the side.',
  not_a_picture: 'The face of a job comes from a picture, and this file is a video.',
} as const;

export type Unsuitable = keyof typeof UNSUITABLE;

/** A box as shares of the width and the height of its frame, from the upper left corner. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface FoundPerson {
  /** The face in the frame that shows it best. */
  readonly box: Box;
  /** Time of that frame in microseconds; 0 in a picture. */
  readonly atUs: number;
  /** Frames that show the person, of those that were looked at. */
  readonly frames: number;
  /** Why the face cannot be put on others; empty: it can. */
  readonly notSource: readonly Unsuitable[];
  /** Why no face can be put on it; empty: one can. */
  readonly notTarget: readonly Unsuitable[];
  /** What the person is recognised by: {@link LOOK_VALUES} signed bytes, in Base64. */
  readonly look: string;
  /** The face, as JPEG in Base64. */
  readonly crop: string;
}

export interface FoundPeople {
  /** In the order of their prominence, at most {@link MAX_PEOPLE}. */
  readonly people: readonly FoundPerson[];
  /** Frames that were looked at; 1 of a picture. */
  readonly frames: number;
}

/** One person of the picture or video of a render. */
export interface MappedPerson {
  readonly id: string;
  /** Role of what the person gets, such as the picture with the face; absent: as {@link FaceMapping.others} says. */
  readonly input?: string;
  readonly box: Box;
  readonly look: string;
}

/** Who gets which face in a render, or who of all is the one that it is about ({@link NAMED_PEOPLE}). */
export interface FaceMapping {
  readonly people: readonly MappedPerson[];
  /** Role of the picture for everybody who has none; absent: they stay themselves. */
  readonly others?: string;
}

/** The one person of a video that a capability is about. */
export interface NamedPerson {
  /** Field of a submit with the id. */
  readonly field: string;
  /** Role of the video with the person. */
  readonly target: string;
  /** Role of what the person gets, by which a mapping marks the person. */
  readonly input: string;
}

/** The capabilities that are about one person of a video, whom a submit may name. */
export const NAMED_PEOPLE: Readonly<Partial<Record<string, NamedPerson>>> = {
  'lip-sync': { field: 'speaker_face_id', target: 'video', input: 'audio' },
  'character-swap': { field: 'face_id', target: 'video', input: 'character' },
  'motion-control': { field: 'face_id', target: 'motion_video', input: 'image' },
};

/** Returns the role of the picture of an entry of a mapping, by its place from 0. */
export function mappedRole(index: number): string {
  return `face_of_${index + 1}`;
}

/** Returns the field of a submit that has the picture of such a role; undefined for any other role. */
export function mappedField(role: string): string | undefined {
  const place = MAPPED_ROLE.exec(role)?.[1];
  return place === undefined ? undefined : `faces.${Number(place) - 1}.face_key`;
}

/** Form of such a role. */
const MAPPED_ROLE = /^face_of_([1-9]|10)$/;

/** Returns the mapping of a render; undefined when it has none. @throws SyntaxError */
export function mappingIn(parameters: Readonly<Record<string, string>>): FaceMapping | undefined {
  const text = parameters[FACES_PARAMETER];
  return text === undefined ? undefined : (JSON.parse(text) as FaceMapping);
}

/** Returns a descriptor as text: only its direction counts. */
export function lookText(look: Float32Array): string {
  const most = look.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  return Buffer.from(Int8Array.from(look, (value) => Math.round((127 * value) / most)).buffer).toString(
    'base64',
  );
}

/** Returns the descriptor of a text. */
export function lookOfText(text: string): Float32Array {
  return Float32Array.from(new Int8Array(Buffer.from(text, 'base64')));
}
