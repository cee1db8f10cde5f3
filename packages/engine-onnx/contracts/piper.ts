import { z } from 'zod';
import { type Contract, floats, type TensorSpec } from './contract.ts';

/** Number of phonemes in the first run. */
const PHONEMES = 32;

const whole = (name: string, more: Partial<TensorSpec> = {}): TensorSpec => ({
  name,
  types: ['int64'],
  dims: [1],
  ...more,
});

/**
 * Voices of Piper (VITS). Known facts, from `export_onnx.py`, `voice.py` and `patch_voice_with_alignment.py` of
 * OHF-Voice/piper1-gpl:
 *
 * - `input` [1, N] numbers of phonemes, `input_lengths` [1] = N, `scales` [3] = noise, length, noise of the durations,
 *   and for several speakers `sid` [1] → `output`, samples in [-1, 1]. Exports declare its rank differently.
 * - The only `Ceil` of the graph gives the frames of each phoneme, [1, 1, N]; a frame is a fixed number of samples.
 *   `speechGraph` makes it the second output.
 * - `FILE.json` beside the model has the numbers of the phonemes, the sample rate and espeak-ng's voice.
 */
export const PIPER: Contract = {
  name: 'piper',
  stage: 'speech',
  several: true,
  traits: {},
  edit: 'piper',
  options: z.strictObject({}),
  tensors: () => ({
    inputs: [
      whole('input', { dims: ['batch', { open: PHONEMES }], first: 1 }),
      whole('input_lengths', { dims: ['batch'], first: PHONEMES }),
      floats('scales', [3], { types: ['float32'], first: 1 }),
      whole('sid', { dims: ['batch'], optional: true }),
    ],
    outputs: [
      floats('output', [1, 1, 1, 'any'], {
        free: true,
        types: ['float32'],
        otherwise: [
          [1, 1, 'any'],
          [1, 'any'],
        ],
      }),
      floats('durations', [1, 1, PHONEMES], { free: true, types: ['float32'] }),
    ],
  }),
};
