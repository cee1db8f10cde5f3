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
