import { z } from 'zod';
import { type Contract, floats } from './contract.ts';

/** Number of tokens in the first run. */
const TOKENS = 32;

/**
 * Kokoro-82M as kokoro-onnx exports it. Known facts, from its `__init__.py` (github.com/thewh1teagle/kokoro-onnx) and
 * from the tensors of its file:
 *
 * - `tokens` [1, N] numbers of phonemes between two zeros, N ≤ 512; `style` [1, 256], chosen by the number of phonemes;
 *   `speed` [1] → samples at 24 kHz. A newer export calls the first `input_ids`.
 * - The `Clip` of the only `Round` gives the frames of each token, [N]; `speechGraph` makes it the second output.
 * - `FILE.json` beside the model has the numbers of the phonemes (Kokoro's `config.json`), `FILE.npz` the styles
 *   (kokoro-onnx's `voices-v1.0.bin`).
 */
export const KOKORO: Contract = {
  name: 'kokoro',
  stage: 'speech',
  several: true,
  traits: {},
  edit: 'kokoro',
  options: z.strictObject({}),
  tensors: () => ({
    inputs: [
      { name: 'tokens', free: true, types: ['int64'], dims: [1, { open: TOKENS }], first: 16 },
      floats('style', [1, 256], { types: ['float32'] }),
      floats('speed', [1], { types: ['float32'], first: 1 }),
    ],
    outputs: [
      floats('output', ['any'], { free: true, types: ['float32'], otherwise: [[1, 'any']] }),
      floats('durations', [TOKENS], { free: true, types: ['float32'], otherwise: [[1, TOKENS]] }),
    ],
  }),
};
