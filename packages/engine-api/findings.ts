import type { FoundPeople } from './people.ts';

/**
 * What an engine found out about the inputs of a render, for the job's owner. The job record shows it as `details`.
 */
export interface Findings {
  /** Absent when the engine counts no faces. */
  readonly faces?: FaceCounts;
  readonly hints: readonly Hint[];
  /** Models of the engine's owner that the output was made with; absent when there are none. */
  readonly models?: readonly UsedModel[];
  /** Options that the render was given, by its owner or its caller: name → value as text. Only the agent sets them. */
  readonly options?: Readonly<Record<string, string>>;
  /** Who of a mapping got which face; absent without a mapping. */
  readonly mapped?: readonly MappedFace[];
  /** Only of an inspection that was asked for people; no record of a job has it. */
  readonly people?: FoundPeople;
  /** Only of an inspection that was asked for a preview: one frame of the output, as JPEG in Base64. */
  readonly preview?: string;
}

/** What became of a person of a mapping. */
export interface MappedFace {
  readonly id: string;
  /** Role of what the person got, such as the picture of a face; absent: the person stayed as it was. */
  readonly input?: string;
  /** Frames in which the person got it; 1 in a picture. */
  readonly frames: number;
}

/** A model, by what its owner states of it. */
export interface UsedModel {
  readonly name: string;
  /** SHA-256 of its file, 64 lower-case hexadecimal digits. */
  readonly sha256: string;
  readonly licence: string;
}

/** Numbers of faces in the picture or video that is changed; in a video the most in one frame. */
export interface FaceCounts {
  /** Faces that were looked at, with those left alone. */
  readonly found: number;
  readonly changed: number;
  readonly left: readonly LeftFaces[];
}

export interface LeftFaces {
  readonly reason: LeftReason;
  readonly count: number;
}

/** Something about an input that the job's owner can do better. */
export interface Hint {
  readonly code: HintCode;
  /** English: what was found, and what to do. */
  readonly message: string;
  /** Role of the input, for example `face`; absent when it concerns no single input. */
  readonly input?: string;
}

/** Why a face was left alone. The codes are stable, and more may come. */
export const LEFT_REASONS = {
  bystander: 'It is much smaller than the main face, or not the one that is changed.',
  covered: 'Too much of it is hidden.',
  not_a_person: 'It looks like a face, but like none of a person: an animal, a pattern.',
  turned_away: 'It is turned so far away that too little of it can be seen.',
} as const;

export type LeftReason = keyof typeof LEFT_REASONS;

/** Codes of hints. They are stable, and more may come. */
export const HINT_CODES = {
  coloured_light: 'A part of the face has another colour, as of coloured light or a mask.',
  face_covered: 'Hair, a hand or the like covers a part of the face.',
  face_drawn: 'The face is drawn in even colours, as in a cartoon, or in ink.',
  face_small: 'The face has few pixels.',
  face_turned: 'The face is turned to the side.',
  feature_kept:
    'A mouth, a nose or an eye stays as it was (in a video in most frames), because it is hidden or unclear in one of the pictures.',
  frames_unchanged: 'Some frames of the video stay as they are, because they show no face or person.',
  glasses: 'The person of the face picture wears glasses, which are left out.',
  hair_kept: 'The long hair of the person in the video stays, and only the face is replaced.',
  head_only:
    'Only the head of the character is used, because its picture ends above the knees and the video shows the legs.',
  language_unknown: 'The language is none that can be spoken; the letters of the script decided.',
  script_shortened: 'Some characters of the script cannot be spoken.',
  picture_chosen: 'Of several pictures of the face (`face_keys`), one is used.',
  several_faces: 'The picture shows several faces, of which one is used.',
  voice_default: 'Nothing told whose voice it is to be, so it is the default one of the language.',
  voice_differs: 'The chosen voice may not fit the person in the portrait.',
} as const;

export type HintCode = keyof typeof HINT_CODES;

/** What the record of a job has room for: entries of one list, and characters of a message. */
export const MAX_FINDINGS = 8;
export const MAX_MODELS = 16;
export const MAX_MODEL_NAME = 64;
export const MAX_LICENCE_LENGTH = 200;
export const SHA256_HEX = /^[0-9a-f]{64}$/;
export const MAX_HINT_LENGTH = 300;
/** Form of a code. */
export const FINDING_CODE = /^[a-z][a-z_]{0,63}$/;
