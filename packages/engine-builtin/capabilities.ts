import type { EngineCapability } from '@semblance/engine-api/engine';
import type { Inspector, Renderer } from './renderer.ts';

/** A capability of the builtin engine and its module, which worker threads import on demand. */
export interface BuiltinCapability extends EngineCapability {
  /** Offered only when ffmpeg and ffprobe are found. */
  readonly needsMedia: boolean;
  /** Offered only when a speech synthesiser (flite or espeak-ng) is found. */
  readonly needsSpeech?: boolean;
  /** Whether it swaps faces, so that a render takes the options of swaps. */
  readonly swaps?: boolean;
  readonly load: () => Promise<Renderer>;
  /** Undefined: none of its inputs is a picture. */
  readonly loadInspector?: () => Promise<Inspector>;
}

export const BUILTIN_CAPABILITIES: readonly BuiltinCapability[] = [
  {
    capability: 'face-swap-image',
    slots: 1,
    swaps: true,
    // Two pictures of 40 megapixels with 8 bits and alpha need 1002 MiB; 16 bits need more.
    memoryMib: 1536,
    needsMedia: false,
    load: async () => (await import('./photo-swap/photo-swap.ts')).renderPhotoSwap,
    loadInspector: async () => (await import('./photo-swap/photo-swap.ts')).inspectPhotoSwap,
  },
  {
    capability: 'lip-sync',
    slots: 1,
    // A 1080p video played backwards needs 674 MiB, including ffmpeg; 4K needs more.
    memoryMib: 1536,
    needsMedia: true,
    load: async () => (await import('./lip-sync/lip-sync.ts')).renderLipSync,
  },
  {
    capability: 'face-swap',
    slots: 1,
    swaps: true,
    memoryMib: 2048,
    needsMedia: true,
    load: async () => (await import('./video-swap/video-swap.ts')).renderVideoSwap,
    loadInspector: async () => (await import('./video-swap/video-swap.ts')).inspectVideoSwap,
  },
  {
    capability: 'motion-control',
    slots: 1,
    memoryMib: 1024,
    needsMedia: true,
    load: async () => (await import('./motion-transfer/motion-transfer.ts')).renderMotionTransfer,
    loadInspector: async () => (await import('./motion-transfer/motion-transfer.ts')).inspectMotionTransfer,
  },
  {
    capability: 'character-swap',
    slots: 1,
    swaps: true,
    // A 1080p video with a character of 40 megapixels needs 611 MiB; decoder and encoder run beside it.
    memoryMib: 1536,
    needsMedia: true,
    load: async () => (await import('./identity-swap/identity-swap.ts')).renderIdentitySwap,
    loadInspector: async () => (await import('./identity-swap/identity-swap.ts')).inspectIdentitySwap,
  },
  {
    capability: 'avatar',
    slots: 1,
    // A portrait of 40 megapixels at 1080p needs 318 MiB; the encoder and a synthesiser run beside it.
    memoryMib: 1024,
    needsMedia: true,
    needsSpeech: true,
    load: async () => (await import('./avatar/avatar.ts')).renderAvatar,
    loadInspector: async () => (await import('./avatar/avatar.ts')).inspectAvatar,
  },
];
