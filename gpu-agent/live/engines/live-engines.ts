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
import { createModelVideo } from './swap/model-video.ts';
import { createVoiceEngine } from './voice/voice-engine.ts';

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
  const voices = (needs: ModelOptions, signal: AbortSignal) =>
    openModelVoices({ ...needs, contextMs: settings.voiceContextMs }, signal);
  const swappers = (needs: ModelOptions, signal: AbortSignal) =>
    openLiveModels({ ...needs, stages: settings.videoStages }, signal);

  if (settings.voiceSlots > 0) {
    engines.push(
      createVoiceEngine({
        slots: settings.voiceSlots,
        slotsGiven: settings.voiceSlotsGiven,
        sampleRate: settings.voiceRate,
        chunkFrames: settings.voiceChunkFrames,
        contextMs: settings.voiceContextMs,
        logger,
        ...(onnx ? { openModels: modelOpener(onnx, logger, 'cannot load voice models', voices) } : {}),
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
            const fault = 'cannot load models for live swaps, builtin draws them';
            return createModelVideo({ ...video, openModels: modelOpener(onnx, logger, fault, swappers) });
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
