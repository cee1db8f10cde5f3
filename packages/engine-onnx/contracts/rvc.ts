import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';
import { type Contract, type Dim, fixed, floats, type TensorSpec } from './contract.ts';

/**
 * Voices of RVC ("Retrieval-based Voice Conversion"), and the models in front of them. Known facts:
 *
 * - Voice as w-okada's voice changer exports it (`onnxExporter/export2onnx.py`): `feats` [1, T, 256 or 768], `p_len`
 *   = T, `pitch` (classes 1 to 255), `pitchf` (Hz, 0 without a voice), `sid` → `audio`, a hundredth of a second for
 *   each of the T frames. Voices without pitch lack `pitch` and `pitchf`. Exports differ in the rank of `audio`.
 * - Voice as RVC-Project exports it (`infer/modules/onnx/export.py`): the same under the names `phone`,
 *   `phone_lengths` and `ds`, and `rnd` [1, 192, T], the noise of the prior. The other layout makes it in the graph.
 * - Content encoder (HuBERT, ContentVec): sound at 16 kHz → 50 frames per second, (N − 400) / 320 + 1 in all, which
 *   are doubled for the voice. Voices of version 1 use its 9th layer, projected to 256 numbers, those of version 2
 *   its 12th. RVC's own files take [1, 1, N], others [1, N]. w-okada's file has both layers: `units9` (256),
 *   `unit12` (768) and `unit12s`, of which no RVC voice reads the last (`embedder/OnnxContentvec.py`).
 * - RMVPE ("RMVPE: A Robust Model for Vocal Pitch Estimation in Polyphonic Music", 2023), 100 frames per second: 128
 *   mel bands, in multiples of 32 frames → 360 classes of pitch, 20 cents each; or, with both around it in one graph,
 *   `waveform` [1, N] at 16 kHz and `threshold` → `pitchf` in Hz (w-okada's `RMVPEOnnxPitchExtractor.py`).
 * - FCPE ("FCPE: A Fast Context-based Pitch Estimation Model", 2025), as forks of w-okada's voice changer run it
 *   (`FcpeOnnxPitchExtractor.py`): `mel` [1, T, 128], `threshold`, in some exports `n_samples` = T → `pitchf` in Hz.
 */
export const VOICE = 'voice';
/** Number of numbers of `rnd` in each frame. */
export const NOISE_WIDTH = 192;
/** Number of frames in the first run. */
const FRAMES = 64;
const SAMPLES = 320 * (FRAMES / 2) + 80;
const FREE = { free: true } as const;

/** Returns the number of samples at 16 kHz of which RMVPE with a `waveform` makes so many frames, one every 160. */
export function waveformLength(frames: number): number {
  // The first frame is centred on the first sample, so a further sample would make a further frame.
  return 160 * frames - 1;
}

const open = (first: number): Dim => ({ open: first });

const options = z.strictObject({
  /** Sample rate of `audio`, in Hz. */
  sample_rate: z.union([z.literal(32_000), z.literal(40_000), z.literal(48_000)]),
  speaker: z.number().int().min(0).max(1_000).default(0),
  /** Deviation of the noise in `rnd`. RVC's own pipeline multiplies by the default; the export leaves it out. */
  noise: z.number().min(0).max(1).default(0.66666),
  /** 1: frames without a voice get a pitch between those beside them; 0: they have none. */
  interpolate: z.union([z.literal(0), z.literal(1)]).default(1),
}) as unknown as Contract['options'];

function voice(name: string, width: number, needs: string): Contract {
  const whole = (role: string, dims: readonly Dim[], more: Partial<TensorSpec> = {}): TensorSpec => ({
    name: role,
    types: ['int64'],
    dims,
    ...more,
  });
  const inputs = [
    floats('feats', ['batch', open(FRAMES), width], { aliases: ['phone'] }),
    whole('p_len', ['batch'], { aliases: ['phone_lengths'], first: FRAMES }),
    whole('pitch', ['batch', open(FRAMES)], { optional: true, first: 1 }),
    floats('pitchf', ['batch', open(FRAMES)], { optional: true }),
    whole('sid', ['batch'], { aliases: ['ds'] }),
    floats('rnd', ['batch', NOISE_WIDTH, open(FRAMES)], { optional: true }),
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
      const otherwise = [['batch', samples], [samples]] as const;
      return { inputs, outputs: [floats('audio', ['batch', 1, samples], { ...FREE, otherwise })] };
    },
  };
}

/** @param layer name of the output in a file that has several */
function encoder(stage: 'voice-content-256' | 'voice-content-768', width: number, layer: string): Contract {
  const sound = floats('sound', ['batch', open(SAMPLES)], {
    ...FREE,
    otherwise: [['batch', 1, open(SAMPLES)]],
  });
  return {
    name: `contentvec_${width}`,
    stage,
    traits: {},
    options: z.strictObject({}),
    tensors(_options, { outputs }) {
      const found = outputOf(outputs, width, layer);
      const which = found === undefined ? FREE : { aliases: [found] };
      return { inputs: [sound], outputs: [floats('feats', ['batch', open(FRAMES / 2), width], which)] };
    },
  };
}

/** Returns the name of the output that has this layer, else of the first that declares this width. */
function outputOf(outputs: OnnxSummary['outputs'], width: number, layer: string): string | undefined {
  const named = outputs.find(({ name }) => name === layer);
  return (named ?? outputs.find(({ dims }) => dims?.at(-1) === width))?.name;
}

const pitch: Contract = {
  ...fixed('rmvpe', 'voice-pitch', {}, [], []),
  // The default depends on the layout; packages/voice has both.
  options: z.strictObject({
    threshold: z.number().min(0).max(1).optional(),
  }) as unknown as Contract['options'],
  tensors(_options, { inputs }) {
    if (!inputs.some(({ name }) => name === 'waveform'))
      return {
        inputs: [floats('mel', ['batch', 128, open(FRAMES)], FREE)],
        outputs: [floats('salience', ['batch', open(FRAMES), 360], FREE)],
      };
    const [frames, samples] = [open(FRAMES), open(waveformLength(FRAMES))];
    return {
      inputs: [floats('waveform', ['batch', samples]), floats('threshold', [1], { otherwise: [[]] })],
      outputs: [
        floats('pitchf', ['batch', frames], { ...FREE, otherwise: [['batch', frames, 1], [frames]] }),
      ],
    };
  },
};

const fcpe: Contract = {
  ...fixed('fcpe', 'voice-pitch', {}, [], []),
  options: pitch.options,
  tensors() {
    const frames = open(FRAMES);
    return {
      inputs: [
        floats('mel', ['batch', frames, 128]),
        floats('threshold', [1], { otherwise: [[]] }),
        { name: 'n_samples', types: ['int64'], dims: [1], optional: true, first: FRAMES },
      ],
      outputs: [
        floats('pitchf', ['batch', frames, 1], { ...FREE, otherwise: [['batch', frames], [frames]] }),
      ],
    };
  },
};

export const RVC: readonly Contract[] = [
  voice('rvc_v1', 256, 'contentvec_256'),
  voice('rvc_v2', 768, 'contentvec_768'),
  encoder('voice-content-256', 256, 'units9'),
  encoder('voice-content-768', 768, 'unit12'),
  pitch,
  fcpe,
];
