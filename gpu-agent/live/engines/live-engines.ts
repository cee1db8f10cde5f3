import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import type { LiveCapability, LiveEngine } from '@semblance/engine-api/live-engine';
import {
  type Character,
  CharacterError,
  loadCharacters,
} from '@semblance/engine-builtin/live-swap/characters';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { parseBuiltinSettings } from '@semblance/engine-builtin/settings';
import { openLiveModels } from '@semblance/engine-onnx/live/live-models';
import { parseOnnxSettings } from '@semblance/engine-onnx/settings';
import { openModelVoices } from '@semblance/voice/rvc/model-voices';
import type { LiveSettings } from '../settings.ts';
import { createPictureMedia } from './sidecar/picture-media.ts';
import { createSidecarEngine } from './sidecar/sidecar-engine.ts';
import { createSoundMedia } from './sidecar/sound-flow.ts';
import { createLiveSwapEngine } from './swap/live-swap-engine.ts';
import { createModelVideo } from './swap/model-video.ts';
import { createVoiceEngine } from './voice/voice-engine.ts';

export interface LiveEngines {
  readonly engines: readonly LiveEngine[];
  /** Requested capabilities that cannot be offered, with the reason. */
  readonly unavailable: readonly { readonly name: LiveCapability; readonly message: string }[];
}

export interface LiveEnginesOptions {
  readonly settings: LiveSettings;
  /** Settings of the engine `builtin`; undefined: the defaults. */
  readonly builtin?: Readonly<Record<string, string>> | undefined;
  /** Settings of the owner's models; undefined when the engine `onnx` is not used. */
  readonly onnx: Readonly<Record<string, string>> | undefined;
  readonly logger: Logger;
  readonly onChange: () => void;
  readonly onCrash: (capability: LiveCapability) => void;
}

/** Creates the engines to which the settings give slots; none is warm yet. */
export async function createLiveEngines(options: LiveEnginesOptions): Promise<LiveEngines> {
  const { settings, logger } = options;
  const engines: LiveEngine[] = [];
  const unavailable: { name: LiveCapability; message: string }[] = [];
  if (settings.voiceSlots > 0) engines.push(voiceEngine(options));
  else logger.info('offering no live voice: SEMBLANCE_LIVE_VOICE_SLOTS is 0');

  if (settings.videoSlots > 0) {
    try {
      engines.push(swapEngine(options, await loadCharacters(settings.characterDirectories)));
    } catch (error) {
      // Without live swaps, the rest of the agent still works; the log says what is wrong.
      if (!(error instanceof CharacterError)) throw error;
      logger.error(`offering no live swaps: ${error.message}`);
      unavailable.push({ name: 'full-live-swap', message: error.message });
    }
  } else logger.info('offering no live swaps: SEMBLANCE_LIVE_VIDEO_SLOTS is 0');
  return { engines, unavailable };
}

function voiceEngine({ settings, onnx, logger, onChange, onCrash }: LiveEnginesOptions): LiveEngine {
  const { voiceSlots: slots, voiceSlotsGiven: slotsGiven, voiceContextMs: contextMs } = settings;
  const sound = { sampleRate: settings.voiceRate, chunkFrames: settings.voiceChunkFrames };
  const common = { logger, onChange, onCrash: () => onCrash('voice') };
  if (settings.voiceSidecar !== undefined)
    return createSidecarEngine({
      ...common,
      capability: 'voice',
      socket: settings.voiceSidecar,
      mostSlots: slotsGiven ? slots : undefined,
      media: createSoundMedia(sound),
    });
  const voices = (needs: ModelOptions, signal: AbortSignal) =>
    openModelVoices({ ...needs, contextMs }, signal);
  return createVoiceEngine({
    ...common,
    ...sound,
    slots,
    slotsGiven,
    contextMs,
    ...(onnx ? { openModels: modelOpener(onnx, logger, 'cannot load voice models', voices) } : {}),
  });
}

function swapEngine(
  { settings, builtin, onnx, logger, onChange, onCrash }: LiveEnginesOptions,
  characters: ReadonlyMap<string, Character>,
): LiveEngine {
  const { videoSlots: slots, videoStages: stages } = settings;
  const common = { logger, onChange, onCrash: () => onCrash('full-live-swap') };
  if (settings.videoSidecar !== undefined)
    return createSidecarEngine({
      ...common,
      capability: 'full-live-swap',
      socket: settings.videoSidecar,
      mostSlots: settings.videoSlotsGiven ? slots : undefined,
      media: createPictureMedia(characters),
    });
  const swappers = (needs: ModelOptions, signal: AbortSignal) => openLiveModels({ ...needs, stages }, signal);
  return createLiveSwapEngine({
    ...common,
    createVideo(crashed) {
      const video = { slots, characters, settings: parseBuiltinSettings(builtin), onCrash: crashed };
      if (!onnx) return createLiveVideo(video);
      const fault = 'cannot load models for live swaps, builtin draws them';
      return createModelVideo({ ...video, openModels: modelOpener(onnx, logger, fault, swappers) });
    },
    characters: [...characters.keys()],
  });
}

type Opener<Models> = (signal: AbortSignal, onEnd: (reason: string) => void) => Promise<Models | undefined>;

/**
 * @param open loads the owner's models of one kind
 * @param fault what the log says before the reason when a model has a fault
 * @returns the loader of these models. When a model has a fault, it logs that and uses none; when the device has one,
 * such as being full, it rejects
 */
function modelOpener<Models>(
  given: Readonly<Record<string, string>>,
  logger: Logger,
  fault: string,
  open: (options: ModelOptions, signal: AbortSignal) => Promise<Models | undefined>,
): Opener<Models> {
  return async (signal, onEnd) => {
    try {
      const say = (line: string): void => logger.info(line);
      return await open({ ...parseOnnxSettings(given), threads: 1, say, onEnd }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (deviceFaultOf(describeError(error))) throw error;
      logger.error(`${fault}: ${describeError(error)}`);
      return undefined;
    }
  };
}

type ModelOptions = ReturnType<typeof parseOnnxSettings> & {
  readonly threads: number;
  readonly say: (line: string) => void;
  readonly onEnd: (reason: string) => void;
};
