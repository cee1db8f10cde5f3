import { ConfigError } from '@semblance/common/config';
import { characterDirectories, characterShape } from '@semblance/engine-builtin/live-swap/characters';
import { OPTIONAL_LIVE_STAGES, type OptionalLiveStage } from '@semblance/engine-onnx/live/live-models';
import { HIGHEST_RATE, LOWEST_RATE } from '@semblance/voice/converter';
import { CONTEXT_MS, CONTEXT_STEP_MS, LONGEST_CONTEXT_MS } from '@semblance/voice/rvc/rvc-converter';
import { z } from 'zod';
import { socketPath } from '../socket-path.ts';
import { whole } from '../whole-number.ts';

/**
 * Voice sessions per core. Eight conversions take a seventh of a core, including transport, and leave most of it to
 * renders.
 */
const VOICE_SLOTS_PER_CORE = 8;
/**
 * Most voice sessions. One thread relays and converts all of them; at 1 % of a core each they leave a third of it
 * free.
 */
const MAX_VOICE_SLOTS = 64;
/** Memory of one live swap with its thread and codecs, in MiB. */
export const LIVE_SWAP_MIB = 300;
/** Memory from which one live swap fits beside everything else of a `builtin` agent, in MiB. */
const ONE_LIVE_SWAP_MIB = 2_304;
const MAX_SLOTS = 1_024;
/** Highest rate of messages: half of what a gateway accepts, because clients may send unevenly. */
const MAX_MESSAGES_A_SECOND = 250;

/** Environment variables of live sessions. */
export const liveShape = {
  ...characterShape,
  /** Voice Swap sessions at once; 0 for none. Default: as many as the cores, one thread and the models can carry. */
  SEMBLANCE_LIVE_VOICE_SLOTS: whole(0, MAX_SLOTS).optional(),
  /** Live Swap Pro sessions at once, each with a thread; 0 for none. Default: as many as cores and memory allow. */
  SEMBLANCE_LIVE_VIDEO_SLOTS: whole(0, MAX_SLOTS).optional(),
  /** Stages of the owner's models that live swaps use beside the swapper, separated by commas; empty for none. */
  SEMBLANCE_LIVE_VIDEO_STAGES: z
    .string()
    .transform((text) => text.split(',').flatMap((name) => name.trim() || []))
    .pipe(z.array(z.enum(OPTIONAL_LIVE_STAGES)))
    .refine((names) => new Set(names).size === names.length, 'names a stage twice')
    .optional(),
  /** Unix socket of a program that carries Voice Swap, and of one that carries Live Swap Pro, beside the agent. */
  SEMBLANCE_LIVE_VOICE_SIDECAR: socketPath.optional(),
  SEMBLANCE_LIVE_VIDEO_SIDECAR: socketPath.optional(),
  /** Sample rate of Voice Swap, in Hz. */
  SEMBLANCE_LIVE_VOICE_RATE: whole(LOWEST_RATE, HIGHEST_RATE).default(48_000),
  /** Samples per message that clients are asked to send: at least 4 ms of sound, at most a second. */
  SEMBLANCE_LIVE_VOICE_CHUNK_FRAMES: whole(16, 48_000).default(960),
  /** Length of the sound that the owner's models process for each block of a voice, in ms. */
  SEMBLANCE_LIVE_VOICE_CONTEXT_MS: whole(CONTEXT_MS, LONGEST_CONTEXT_MS)
    .refine((ms) => ms % CONTEXT_STEP_MS === 0, `must be a multiple of ${CONTEXT_STEP_MS}`)
    .optional(),
};

export interface LiveSettings {
  readonly voiceSlots: number;
  /** Whether the environment gives `voiceSlots`. Otherwise it is a limit, and fewer are offered if models carry fewer. */
  readonly voiceSlotsGiven: boolean;
  readonly videoSlots: number;
  readonly videoSlotsGiven: boolean;
  /** Sockets of programs that carry the sessions instead of the engines of this agent. */
  readonly voiceSidecar: string | undefined;
  readonly videoSidecar: string | undefined;
  readonly videoStages: readonly OptionalLiveStage[];
  readonly voiceRate: number;
  readonly voiceChunkFrames: number;
  readonly voiceContextMs: number;
  /** Directories of the faces of Live Swap Pro. */
  readonly characterDirectories: readonly string[];
}

/**
 * @param machine resources of the agent, from which the defaults follow
 * @throws ConfigError when clients that follow the settings would be cut off
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
    voiceSlotsGiven: config.SEMBLANCE_LIVE_VOICE_SLOTS !== undefined,
    videoSlots: config.SEMBLANCE_LIVE_VIDEO_SLOTS ?? videoSlotsOf(cores, memoryMib),
    videoSlotsGiven: config.SEMBLANCE_LIVE_VIDEO_SLOTS !== undefined,
    voiceSidecar: config.SEMBLANCE_LIVE_VOICE_SIDECAR,
    videoSidecar: config.SEMBLANCE_LIVE_VIDEO_SIDECAR,
    videoStages: config.SEMBLANCE_LIVE_VIDEO_STAGES ?? [],
    voiceRate: rate,
    voiceChunkFrames: chunk,
    voiceContextMs: config.SEMBLANCE_LIVE_VOICE_CONTEXT_MS ?? CONTEXT_MS,
    characterDirectories: characterDirectories(config),
  };
}

/** A stream needs most of a core, and half of the machine stays for renders. */
function videoSlotsOf(cores: number, memoryMib: number): number {
  const further = Math.floor((memoryMib - ONE_LIVE_SWAP_MIB) / LIVE_SWAP_MIB);
  return Math.max(1, Math.min(Math.floor(cores / 2), 1 + further));
}
