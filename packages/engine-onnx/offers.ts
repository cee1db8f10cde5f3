import type { Capability } from '@semblance/engine-api/capabilities';
import type { Stage } from './contracts/contract.ts';

/**
 * Peak resident memory of one Photo Swap beside the models, in MiB: two pictures of 40 megapixels and their
 * encoder.
 */
const PHOTO_SWAP_MEMORY_MIB = 1536;
/** Peak resident memory of one video of any length beside the models, in MiB. */
const VIDEO_MEMORY_MIB = 2048;

/** A capability that this engine offers when at least one of the stages has a model. */
export interface Offer {
  readonly capability: Capability;
  readonly anyOf: readonly Stage[];
  readonly memoryMib: number;
  /** Whether it needs ffmpeg. */
  readonly video: boolean;
}

const OFFERS: readonly Offer[] = [
  {
    capability: 'face-swap-image',
    // A single one of these already improves a face swap over `builtin` alone.
    anyOf: ['swapper', 'enhancer', 'detector', 'landmarks'],
    memoryMib: PHOTO_SWAP_MEMORY_MIB,
    video: false,
  },
  { capability: 'face-swap', anyOf: ['swapper'], memoryMib: VIDEO_MEMORY_MIB, video: true },
  { capability: 'lip-sync', anyOf: ['lips'], memoryMib: VIDEO_MEMORY_MIB, video: true },
  // Its voices also need the program that reads text.
  { capability: 'avatar', anyOf: ['speech'], memoryMib: VIDEO_MEMORY_MIB, video: true },
  // The contracts ensure that the other parts are present too.
  { capability: 'motion-control', anyOf: ['portrait-generator'], memoryMib: VIDEO_MEMORY_MIB, video: true },
];

/** Returns what this engine offers with models for these stages. */
export function offersOf(stages: ReadonlySet<Stage>, video: boolean): readonly Offer[] {
  return OFFERS.filter((offer) => (video || !offer.video) && offer.anyOf.some((stage) => stages.has(stage)));
}
