import type { FloatTensor } from '@semblance/engine-onnx/sessions/protocol';
import type { ModelVoices } from '@semblance/voice/rvc/model-voices';

const RATE = 48_000;
/** The one voice that has a model. */
export const TONE_MODEL = 'my-voice';

/** Creates models whose voice is a tone. @param before awaited before each run */
export function toneModels(
  before: (model: string, signal: AbortSignal) => Promise<void> = async () => {},
  carries = 64,
): ModelVoices {
  return {
    carries,
    names: new Set([TONE_MODEL]),
    of: () => ({
      voice: {
        name: TONE_MODEL,
        options: { sample_rate: RATE },
        inputs: ['feats', 'p_len', 'pitch', 'pitchf', 'sid'].map((role) => ({ role, dims: [1] })),
      },
      content: { name: 'content', options: {}, inputs: [{ role: 'sound', dims: [1, 1] }] },
      pitch: undefined,
    }),
    async run(model, { pitchf }, signal): Promise<FloatTensor> {
      await before(model, signal);
      if (model === 'content') return { data: new Float32Array(32 * 4), dims: [1, 32, 4] };
      const hz = pitchf?.data[60] || 100;
      const data = Float32Array.from({ length: (64 * RATE) / 100 }, (_, i) =>
        Math.sin((2 * Math.PI * hz * i) / RATE),
      );
      return { data, dims: [1, data.length] };
    },
    close: async () => {},
  };
}
