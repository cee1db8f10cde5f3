import type { NetworkName } from '@semblance/vision/internal/models/networks';
import { installed } from './installed.ts';
import type { ConvertOptions } from './tfjs-to-onnx.ts';

type Outputs = Pick<ConvertOptions, 'outputs'>;

/** Networks of `@vladmandic/human` (MIT; Google's MediaPipe face models), and the outputs that are kept. */
export const MODELS = {
  blazeface: {
    outputs: {
      Identity: { name: 'scores16', dims: [1, 512, 1] },
      Identity_1: { name: 'scores32', dims: [1, 384, 1] },
      Identity_2: { name: 'boxes16', dims: [1, 512, 16] },
      Identity_3: { name: 'boxes32', dims: [1, 384, 16] },
    },
  },
  facemesh: {
    outputs: {
      Identity_2: { name: 'mesh', dims: [1, 1404] },
      Identity_1: { name: 'score', dims: [1, 1] },
    },
  },
  // Its output for age is left out.
  faceres: {
    outputs: {
      'global_pooling/Mean': { name: 'descriptor', dims: [1, 1024] },
      'gender_pred/Sigmoid': { name: 'man', dims: [1, 1] },
    },
  },
} as const satisfies Partial<Record<NetworkName, Outputs>>;

/** The network of `nsfwjs`: shares of its classes, in the order drawing, hentai, neutral, porn, sexy. */
export const NSFWJS_OUTPUTS = {
  Identity: { name: 'classes', dims: [1, 5] },
} as const satisfies Outputs['outputs'];

const POSE_OUTPUTS = {
  Identity: { name: 'points', dims: [1, 195] },
  Identity_1: { name: 'score', dims: [1, 1] },
  Identity_2: { name: 'mask', dims: [1, 256, 256, 1] },
  Identity_3: { name: 'heat', dims: [1, 64, 64, 39] },
} as const;

/** Networks of `@mediapipe/pose` (Apache-2.0): Google's own files for TensorFlow Lite. */
export const TFLITE_MODELS = {
  pose_detector: {
    // The archive, made for the package's web page, contains exactly this one file.
    file: 'pose_solution_packed_assets.data',
    outputs: {
      Identity: { name: 'boxes', dims: [1, 2254, 12] },
      Identity_1: { name: 'scores', dims: [1, 2254, 1] },
    },
  },
  pose_full: { file: 'pose_landmark_full.tflite', outputs: POSE_OUTPUTS },
} as const satisfies Partial<Record<NetworkName, Outputs & { file: string }>>;

export type TfjsModelName = keyof typeof MODELS;
export type TfliteModelName = keyof typeof TFLITE_MODELS;

export function isTfliteModel(name: NetworkName): name is TfliteModelName {
  return Object.hasOwn(TFLITE_MODELS, name);
}

/**
 * Returns the directory of the installed TensorFlow.js weights. @throws Error when `@vladmandic/human` is not
 * installed.
 */
export function weightsDirectory(): string {
  // The package's `exports` hide package.json and the models, so the folder is looked up by path.
  return installed('@vladmandic/human', 'models');
}

/**
 * Returns the file of an installed TensorFlow Lite network. @throws Error when `@mediapipe/pose` is not installed.
 */
export function tfliteFile(name: TfliteModelName): string {
  return installed('@mediapipe/pose', TFLITE_MODELS[name].file);
}
