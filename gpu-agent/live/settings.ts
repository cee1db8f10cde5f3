import { ConfigError } from '@semblance/common/config';
import { characterDirectories, characterShape } from '@semblance/engine-builtin/live-swap/characters';
import { HIGHEST_RATE, LOWEST_RATE } from '@semblance/voice/converter';
import type { z } from 'zod';
import { whole } from '../whole-number.ts';

/** Eight conversions take a seventh of a core, transport included: most of it is left to renders. */
const VOICE_SLOTS_PER_CORE = 8;
/** One thread relays and converts them all: so many, 1 % of a core each in such a crowd, leave a third of it. */
const MAX_VOICE_SLOTS = 64;
/** States what a live swap takes of memory, its thread and codecs included. */
export const LIVE_SWAP_MIB = 300;
/** Memory with which there is room for one of them beside everything else that an agent of `builtin` does. */
const ONE_LIVE_SWAP_MIB = 2_304;
const MAX_SLOTS = 1_024;
/** Half of what a gateway takes from a client, which may hold to what it is told and be uneven about it. */
const MAX_MESSAGES_A_SECOND = 250;

/** Variables of the environment that concern live sessions. */
export const liveShape = {
  ...characterShape,
  /** Voice Swap sessions at once; 0: none. As many as cores and one thread can carry unless set. */
  SEMBLANCE_LIVE_VOICE_SLOTS: whole(0, MAX_SLOTS).optional(),
  /**
   * Live Swap Pro sessions at once, each with a thread of its own; 0: none. As many as cores and memory are for
   * unless set.
   */
  SEMBLANCE_LIVE_VIDEO_SLOTS: whole(0, MAX_SLOTS).optional(),
  /** Samples a second that clients of Voice Swap send and get. */
  SEMBLANCE_LIVE_VOICE_RATE: whole(LOWEST_RATE, HIGHEST_RATE).default(48_000),
  /** Samples that they are asked to send in one message: no more than a second of them, nor less than 4 ms. */
  SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: whole(16, 48_000).default(960),
};

export interface LiveSettings {
  readonly voiceSlots: number;
  readonly videoSlots: number;
  readonly voiceRate: number;
  readonly voiceChunkFrames: number;
  /** States where the faces of Live Swap Pro are. */
  readonly characterDirectories: readonly string[];
}

/**
 * @param machine what the agent may use of it, which decides on what nothing is said of
 * @throws ConfigError when clients that do as they are told would be cut off for it
 */
export function liveSettings(
  config: z.output<z.ZodObject<typeof liveShape>>,
  { cores, memoryMib }: { readonly cores: number; readonly memoryMib: number },
): LiveSettings {
  const { SEMBLANCE_LIVE_VOICE_RATE: rate, SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: chunk } = config;
  const least = Math.ceil(rate / MAX_MESSAGES_A_SECOND);
  if (chunk < least || chunk > rate) {
    throw new ConfigError(
      `The environment is not usable:\n  SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: must be from ${least} to ${rate} where SEMBLANCE_LIVE_VOICE_RATE is ${rate}`,
    );
  }
  return {
    voiceSlots: config.SEMBLANCE_LIVE_VOICE_SLOTS ?? Math.min(MAX_VOICE_SLOTS, VOICE_SLOTS_PER_CORE * cores),
    videoSlots: config.SEMBLANCE_LIVE_VIDEO_SLOTS ?? videoSlotsOf(cores, memoryMib),
    voiceRate: rate,
    voiceChunkFrames: chunk,
    characterDirectories: characterDirectories(config),
  };
}

/** A stream keeps the better part of a core busy; the other half of the machine is for renders. */
function videoSlotsOf(cores: number, memoryMib: number): number {
  const further = Math.floor((memoryMib - ONE_LIVE_SWAP_MIB) / LIVE_SWAP_MIB);
  return Math.max(1, Math.min(Math.floor(cores / 2), 1 + further));
}
