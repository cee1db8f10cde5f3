import { z } from 'zod';
import { type Contract, type Dim, fixed, floats, type TensorSpec } from './contract.ts';

/**
 * Voices of RVC ("Retrieval-based Voice Conversion") as w-okada's voice changer exports them, and the models in
 * front of them. Known facts:
 *
 * - Voice: `feats` [1, T, 256 or 768], `p_len` = T, `pitch` (classes 1 to 255), `pitchf` (Hz, 0 without a voice),
 *   `sid` → `audio`, a hundredth of a second for each of the T frames. Voices without pitch lack `pitch` and
 *   `pitchf`. Exports differ in the rank of `audio`.
 * - Content encoder (HuBERT, ContentVec): sound at 16 kHz → 50 frames per second, (N − 400) / 320 + 1 in all, which
 *   are doubled for the voice. Voices of version 1 use its 9th layer, projected to 256 numbers, those of version 2
 *   its 12th. RVC's own files take [1, 1, N], others [1, N].
 * - RMVPE ("RMVPE: A Robust Model for Vocal Pitch Estimation in Polyphonic Music", 2023): 128 mel bands, 100 frames
 *   per second, in multiples of 32 → 360 classes of pitch, 20 cents each.
 */
export const VOICE = 'voice';
/** Number of frames in the first run. */
const FRAMES = 64;
const SAMPLES = 320 * (FRAMES / 2) + 80;
const FREE = { free: true } as const;

const open = (first: number): Dim => ({ open: first });

const options = z.strictObject({
  /** Sample rate of `audio`, in Hz. */
  sample_rate: z.union([z.literal(32_000), z.literal(40_000), z.literal(48_000)]),
  speaker: z.number().int().min(0).max(1_000).default(0),
}) as unknown as Contract['options'];

function voice(name: string, width: number, needs: string): Contract {
  const whole = (role: string, dims: readonly Dim[], more: Partial<TensorSpec> = {}): TensorSpec => ({
    name: role,
    types: ['int64'],
    dims,
    ...more,
  });
  const inputs = [
    floats('feats', [1, open(FRAMES), width]),
    whole('p_len', [1], { first: FRAMES }),
    whole('pitch', [1, open(FRAMES)], { optional: true, first: 1 }),
    floats('pitchf', [1, open(FRAMES)], { optional: true }),
    whole('sid', [1]),
  ];
  return {
    name,
    stage: VOICE,
    several: true,
    traits: {},
    options,
    needs: [needs],
    tensors({ sample_rate: rate = 0 }) {
      const samples = open((FRAMES * rate) / 100);
      return {
        inputs,
        outputs: [floats('audio', [1, 1, samples], { ...FREE, otherwise: [[1, samples], [samples]] })],
      };
    },
  };
}

const encoder = (name: string, stage: 'voice-content-256' | 'voice-content-768', width: number): Contract =>
  fixed(
    name,
    stage,
    {},
    [floats('sound', [1, open(SAMPLES)], { ...FREE, otherwise: [[1, 1, open(SAMPLES)]] })],
    [floats('feats', [1, open(FRAMES / 2), width], FREE)],
  );

export const RVC: readonly Contract[] = [
  voice('rvc_v1', 256, 'contentvec_256'),
  voice('rvc_v2', 768, 'contentvec_768'),
  encoder('contentvec_256', 'voice-content-256', 256),
  encoder('contentvec_768', 'voice-content-768', 768),
  fixed(
    'rmvpe',
    'voice-pitch',
    {},
    [floats('mel', [1, 128, open(FRAMES)], FREE)],
    [floats('salience', [1, open(FRAMES), 360], FREE)],
    { options: z.strictObject({ threshold: z.number().min(0).max(1).default(0.03) }) },
  ),
];
