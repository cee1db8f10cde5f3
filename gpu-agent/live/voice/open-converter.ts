import type { Voice } from '#common/voices/voice.ts';
import { createVoiceConverter, type VoiceConverter, type VoiceConverterOptions } from './converter.ts';
import type { ModelVoices } from './rvc/model-voices.ts';
import { RvcConverter } from './rvc/rvc-converter.ts';
import type { RunModel, RvcModels } from './rvc/rvc-models.ts';

/** What converts to a voice. It can be sent to the thread that is to do it. */
export interface ConverterOptions extends VoiceConverterOptions {
  /** With which it speaks; undefined: `builtin` converts. */
  readonly models?: RvcModels | undefined;
}

/** As {@link VoiceConverter}, of which a part works elsewhere. One call at a time. */
export interface AsyncVoiceConverter {
  readonly latencySamples: VoiceConverter['latencySamples'];
  push(chunk: Int16Array): Promise<Int16Array>;
  flush(): Promise<Int16Array>;
}

/**
 * What converts to a voice: the model that it names, where this node has it, else `builtin`.
 * @param node its models; undefined: it has none
 * @returns `engine`, to be said to whoever asks: `builtin`, `onnx <model>`, or `none` where sound goes through
 */
export function engineFor(
  voice: Voice | undefined,
  node: ModelVoices | undefined,
): { readonly engine: string; readonly models?: RvcModels } {
  const model = voice?.model;
  if (model !== undefined && node?.names.has(model))
    return { engine: `onnx ${model}`, models: node.of(model) };
  return { engine: voice ? 'builtin' : 'none' };
}

/** @param run runs the models of the options */
export function openConverter(
  { models, ...options }: ConverterOptions,
  run: RunModel,
): VoiceConverter | AsyncVoiceConverter {
  const { sampleRate, voice } = options;
  return models && voice
    ? new RvcConverter({ sampleRate, voice, models, run })
    : createVoiceConverter(options);
}
