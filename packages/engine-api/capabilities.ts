import { MAX_MAPPED, mappedRole } from './people.ts';

/**
 * The eight capabilities. The key is the path segment that names them in URLs, in RenderJobs and in the admin
 * command. `inputs` maps the role that an engine sees to the request field with the file key, and to the kind of
 * file.
 */
export type MediaKind = 'image' | 'audio' | 'video';
export type Unit = 'image' | 'second' | 'minute';

interface CapabilityFacts {
  readonly feature: string;
  readonly title: string;
  readonly shape: 'job' | 'session';
  readonly unit: Unit;
  readonly inputs: Readonly<Record<string, { readonly field: string; readonly kind: MediaKind }>>;
}

export const CAPABILITIES = {
  'character-swap': {
    feature: 'identity_swap',
    title: 'Identity Swap',
    shape: 'job',
    unit: 'second',
    inputs: {
      video: { field: 'video_key', kind: 'video' },
      character: { field: 'character_key', kind: 'image' },
    },
  },
  'face-swap': {
    feature: 'video_swap',
    title: 'Video Swap',
    shape: 'job',
    unit: 'second',
    inputs: { video: { field: 'video_key', kind: 'video' }, face: { field: 'face_key', kind: 'image' } },
  },
  'face-swap-image': {
    feature: 'photo_swap',
    title: 'Photo Swap',
    shape: 'job',
    unit: 'image',
    inputs: { image: { field: 'image_key', kind: 'image' }, face: { field: 'face_key', kind: 'image' } },
  },
  'motion-control': {
    feature: 'motion_transfer',
    title: 'Motion Transfer',
    shape: 'job',
    unit: 'second',
    inputs: {
      image: { field: 'image_key', kind: 'image' },
      motion_video: { field: 'motion_video_key', kind: 'video' },
    },
  },
  avatar: {
    feature: 'avatar',
    title: 'Avatar',
    shape: 'job',
    unit: 'second',
    inputs: { image: { field: 'image_key', kind: 'image' } },
  },
  'lip-sync': {
    feature: 'lip_sync',
    title: 'Lip Sync',
    shape: 'job',
    unit: 'second',
    inputs: { video: { field: 'video_key', kind: 'video' }, audio: { field: 'audio_key', kind: 'audio' } },
  },
  'full-live-swap': {
    feature: 'live_swap_pro',
    title: 'Live Swap Pro',
    shape: 'session',
    unit: 'minute',
    inputs: {},
  },
  voice: { feature: 'voice_swap', title: 'Voice Swap', shape: 'session', unit: 'minute', inputs: {} },
} as const satisfies Record<string, CapabilityFacts>;

export type Capability = keyof typeof CAPABILITIES;

export const CAPABILITY_NAMES = Object.keys(CAPABILITIES) as Capability[];

export function isCapability(value: string): value is Capability {
  return Object.hasOwn(CAPABILITIES, value);
}

/** Most pictures of the person whose face is put in. */
export const MAX_FACES = 8;
/** The field with several pictures, in place of `face_key`. */
export const FACE_KEYS = 'face_keys';
/** The field with the faces of people by their ids. */
export const FACES = 'faces';

/** An input of a capability. */
export interface InputFacts {
  readonly field: string;
  readonly kind: MediaKind;
  /** A job may be without it. */
  readonly optional?: true;
}

/** Tells whether a capability takes several pictures of the person whose face is put in. */
export function takesFaces(capability: Capability): boolean {
  return 'face' in CAPABILITIES[capability].inputs;
}

/**
 * Returns the inputs that a capability can have, by role. Where it puts a face in, `face` is the first picture of the
 * person, and `face_2` to `face_8` are further ones; `face_of_1` to `face_of_10` are those of a mapping.
 */
export function inputsOf(capability: Capability): Readonly<Record<string, InputFacts>> {
  const further = takesFaces(capability)
    ? Array.from({ length: MAX_FACES - 1 }, (_, i) => faceRole(i + 1))
    : [];
  const facts: InputFacts = { field: FACE_KEYS, kind: 'image', optional: true };
  const given: InputFacts = { ...facts, field: FACES };
  const mapped = takesFaces(capability) ? Array.from({ length: MAX_MAPPED }, (_, i) => mappedRole(i)) : [];
  return {
    ...CAPABILITIES[capability].inputs,
    ...Object.fromEntries(further.map((role) => [role, facts])),
    ...Object.fromEntries(mapped.map((role) => [role, given])),
  };
}

/** Returns the role of a picture by its place in `face_keys`, from 0. */
export function faceRole(index: number): string {
  return index === 0 ? 'face' : `face_${index + 1}`;
}

/** Returns the roles of inputs that are pictures of the person whose face is put in, in their order. */
export function faceRoles(inputs: Readonly<Record<string, unknown>>): readonly string[] {
  return Array.from({ length: MAX_FACES }, (_, i) => faceRole(i)).filter((role) =>
    Object.hasOwn(inputs, role),
  );
}

/** Returns what is wrong with the roles of a job's inputs, in words; undefined when nothing is. */
export function rolesFault(
  capability: Capability,
  roles: readonly string[],
  kind?: MediaKind,
): string | undefined {
  const all = Object.entries(inputsOf(capability)).filter(
    ([, facts]) => kind === undefined || facts.kind === kind,
  );
  const needed = all.filter(([, { optional }]) => !optional).map(([role]) => role);
  const fits =
    needed.every((role) => roles.includes(role)) &&
    roles.every((role) => all.some(([known]) => known === role));
  if (fits && roles.length > 0) return undefined;
  const more =
    all.length > needed.length
      ? `, and face_2 to face_${MAX_FACES} and face_of_1 to face_of_${MAX_MAPPED}`
      : '';
  return `${needed.join(' and ') || 'none'}${more}`;
}
