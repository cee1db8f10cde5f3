import { createVoiceConverter, type VoiceConverter, type VoiceConverterOptions } from './converter.ts';
import type { ModelVoices } from './rvc/model-voices.ts';

export type ConverterOptions = VoiceConverterOptions;

/** As {@link VoiceConverter}, of which a part works elsewhere. One call at a time. */
export interface AsyncVoiceConverter {
  readonly latencySamples: VoiceConverter['latencySamples'];
  push(chunk: Int16Array): Promise<Int16Array>;
  flush(): Promise<Int16Array>;
}

export type OpenedConverter = {
  /** What converts, to be said to whoever asks: `builtin`, `onnx <model>`, or `none` where sound goes through. */
  readonly engine: string;
} & (
  | { readonly kind: 'here'; readonly converter: VoiceConverter }
  | { readonly kind: 'elsewhere'; readonly converter: AsyncVoiceConverter }
);

/**
 * The converter for a voice: the model that it names, where this node has it, else `builtin`.
 * @param models of this node; undefined: it has none
 * @param signal ends what runs elsewhere
 */
export function openConverter(
  options: ConverterOptions,
  models: ModelVoices | undefined,
  signal: AbortSignal,
): OpenedConverter {
  const model = options.voice?.model;
  if (model !== undefined && models?.names.has(model))
    return {
      ...{ engine: `onnx ${model}`, kind: 'elsewhere' },
      converter: models.open(model, options, signal),
    };
  const engine = options.voice ? 'builtin' : 'none';
  return { engine, kind: 'here', converter: createVoiceConverter(options) };
}
