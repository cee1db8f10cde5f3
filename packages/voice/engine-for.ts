import type { Voice } from '@semblance/common/voices/voice';
import type { ModelVoices } from './rvc/model-voices.ts';
import type { RvcModels } from './rvc/rvc-models.ts';

/**
 * Returns the converter to a voice: the model that it names if this node has it, otherwise `builtin`.
 * @param node the node's models; undefined if it has none
 * @returns `engine`, the name of the converter: `builtin`, `onnx <model>`, or `none` if sound passes unchanged
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
