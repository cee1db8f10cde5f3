import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import type { LiveCapability, LiveEngine } from '@semblance/engine-api/live-engine';
import { CharacterError, loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { parseBuiltinSettings } from '@semblance/engine-builtin/settings';
import { openLiveModels } from '@semblance/engine-onnx/live/live-models';
import { parseOnnxSettings } from '@semblance/engine-onnx/settings';
import { openModelVoices } from '@semblance/voice/rvc/model-voices';
import type { LiveSettings } from '../settings.ts';
import { createLiveSwapEngine } from './swap/live-swap-engine.ts';
import { createModelVideo, type ModelVideoOptions } from './swap/model-video.ts';
import { createVoiceEngine, type VoiceEngineOptions } from './voice/voice-engine.ts';

export interface LiveEngines {
  readonly engines: readonly LiveEngine[];
  /** Requested capabilities that cannot be offered, with the reason. */
  readonly unavailable: readonly { readonly name: LiveCapability; readonly message: string }[];
}

/** Creates the engines to which the settings give slots; none is warm yet. */
export async function createLiveEngines(options: {
  readonly settings: LiveSettings;
  /** Settings of the engine `builtin`; undefined: the defaults. */
  readonly builtin?: Readonly<Record<string, string>> | undefined;
  /** Settings of the owner's models; undefined when the engine `onnx` is not used. */
  readonly onnx: Readonly<Record<string, string>> | undefined;
  readonly logger: Logger;
  readonly onChange: () => void;
  readonly onCrash: (capability: LiveCapability) => void;
}): Promise<LiveEngines> {
  const { settings, builtin, onnx, logger, onChange, onCrash } = options;
  const engines: LiveEngine[] = [];
  const unavailable: { name: LiveCapability; message: string }[] = [];

  if (settings.voiceSlots > 0) {
    engines.push(
      createVoiceEngine({
        slots: settings.voiceSlots,
        slotsGiven: settings.voiceSlotsGiven,
        sampleRate: settings.voiceRate,
        chunkFrames: settings.voiceChunkFrames,
        contextMs: settings.voiceContextMs,
        logger,
        ...(onnx ? { openModels: modelOpener(onnx, settings, logger) } : {}),
        onChange,
        onCrash: () => onCrash('voice'),
      }),
    );
  } else logger.info('offering no live voice: SEMBLANCE_LIVE_VOICE_SLOTS is 0');

  if (settings.videoSlots > 0) {
    try {
      const characters = await loadCharacters(settings.characterDirectories);
      engines.push(
        createLiveSwapEngine({
          createVideo(crashed) {
            const video = {
              slots: settings.videoSlots,
              characters,
              settings: parseBuiltinSettings(builtin),
              onCrash: crashed,
            };
            if (!onnx) return createLiveVideo(video);
            return createModelVideo({ ...video, openModels: swapperOpener(onnx, settings, logger) });
          },
          characters: [...characters.keys()],
          logger,
          onChange,
          onCrash: () => onCrash('full-live-swap'),
        }),
      );
    } catch (error) {
      // Without live swaps, the rest of the agent still works; the log says what is wrong.
      if (!(error instanceof CharacterError)) throw error;
      logger.error(`offering no live swaps: ${error.message}`);
      unavailable.push({ name: 'full-live-swap', message: error.message });
    }
  } else logger.info('offering no live swaps: SEMBLANCE_LIVE_VIDEO_SLOTS is 0');
  return { engines, unavailable };
}

/**
 * @returns the loader of models for live swaps. When a model has a fault, it logs that and uses none; when the device
 * has one, such as being full, it rejects.
 */
function swapperOpener(
  given: Readonly<Record<string, string>>,
  { videoStages: stages }: LiveSettings,
  logger: Logger,
): ModelVideoOptions['openModels'] {
  return async (signal, onEnd) => {
    try {
      const settings = parseOnnxSettings(given);
      const say = (line: string): void => logger.info(line);
      return await openLiveModels({ ...settings, threads: 1, stages, say, onEnd }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (deviceFaultOf(describeError(error))) throw error;
      logger.error(`cannot load models for live swaps, builtin draws them: ${describeError(error)}`);
      return undefined;
    }
  };
}

/**
 * @returns the loader of voice models. When a model has a fault, it logs that and uses none; when the device has one,
 * such as being full, it rejects.
 */
function modelOpener(
  given: Readonly<Record<string, string>>,
  { voiceContextMs: contextMs }: LiveSettings,
  logger: Logger,
): VoiceEngineOptions['openModels'] {
  return async (signal, onEnd) => {
    try {
      const settings = parseOnnxSettings(given);
      return await openModelVoices(
        { ...settings, threads: 1, contextMs, say: (line) => logger.info(line), onEnd },
        signal,
      );
    } catch (error) {
      signal.throwIfAborted();
      if (deviceFaultOf(describeError(error))) throw error;
      logger.error(`cannot load voice models: ${describeError(error)}`);
      return undefined;
    }
  };
}
