import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { ConvertOptions } from './tfjs-to-onnx.ts';

type Outputs = Pick<ConvertOptions, 'outputs'>;

/** The networks Semblance uses of those that `@vladmandic/human` ships (MIT; Google's MediaPipe face models). */
export const MODELS = {
  /** Finds faces: 896 anchors on 256² RGB in [-1, 1]; score logits, boxes and six key points by stride. */
  blazeface: {
    outputs: {
      Identity: { name: 'scores16', dims: [1, 512, 1] },
      Identity_1: { name: 'scores32', dims: [1, 384, 1] },
      Identity_2: { name: 'boxes16', dims: [1, 512, 16] },
      Identity_3: { name: 'boxes32', dims: [1, 384, 16] },
    },
  },
  /** 468 points in 3-D on a 192² face crop, RGB in [0, 1]; coordinates in pixels of the crop. */
  facemesh: {
    outputs: {
      Identity_2: { name: 'mesh', dims: [1, 1404] },
      Identity_1: { name: 'score', dims: [1, 1] },
    },
  },
  /** 71 points of one eye's surroundings and 5 of its iris on a 64² crop, RGB in [0, 1]. */
  iris: { outputs: { Identity: { name: 'points', dims: [1, 1, 1, 228] } } },
  /** 1024-d face descriptor on a 224² crop, RGB in 0–255; age and gender are left out. */
  faceres: { outputs: { 'global_pooling/Mean': { name: 'descriptor', dims: [1, 1024] } } },
} as const satisfies Record<string, Outputs>;

/**
 * 39 points (33 of the body, 2 that say where it is, 4 unused) with x, y and z in pixels of a 256² crop, and logits of
 * visibility and presence; the belief that the crop shows a person; logits of its mask and of one heat map a point. The
 * crop is RGB in [0, 1].
 */
const POSE_OUTPUTS = {
  Identity: { name: 'points', dims: [1, 195] },
  Identity_1: { name: 'score', dims: [1, 1] },
  Identity_2: { name: 'mask', dims: [1, 256, 256, 1] },
  Identity_3: { name: 'heat', dims: [1, 64, 64, 39] },
} as const;

/** Those it uses of `@mediapipe/pose` (Apache-2.0): Google's own files for TensorFlow Lite. */
export const TFLITE_MODELS = {
  /** Finds people: 2,254 anchors on 224² RGB in [-1, 1]; score logits, boxes and four key points. */
  pose_detector: {
    // The archive of the package's web page holds this one file and nothing before or after it.
    file: 'pose_solution_packed_assets.data',
    outputs: {
      Identity: { name: 'boxes', dims: [1, 2254, 12] },
      Identity_1: { name: 'scores', dims: [1, 2254, 1] },
    },
  },
  pose_lite: { file: 'pose_landmark_lite.tflite', outputs: POSE_OUTPUTS },
  pose_full: { file: 'pose_landmark_full.tflite', outputs: POSE_OUTPUTS },
} as const satisfies Record<string, Outputs & { file: string }>;

export type TfjsModelName = keyof typeof MODELS;
export type TfliteModelName = keyof typeof TFLITE_MODELS;
export type ModelName = TfjsModelName | TfliteModelName;

export function isTfliteModel(name: ModelName): name is TfliteModelName {
  return Object.hasOwn(TFLITE_MODELS, name);
}

/** Directory of the installed TensorFlow.js weights. @throws Error when `@vladmandic/human` is not installed. */
export function weightsDirectory(): string {
  // The package's `exports` hide package.json and the models, so the folder is looked up by path.
  return installed('@vladmandic/human', 'models');
}

/** File of an installed TensorFlow Lite network. @throws Error when `@mediapipe/pose` is not installed. */
export function tfliteFile(name: TfliteModelName): string {
  return installed('@mediapipe/pose', TFLITE_MODELS[name].file);
}

function installed(packageName: string, inside: string): string {
  for (const root of createRequire(import.meta.url).resolve.paths(packageName) ?? []) {
    const path = join(root, packageName, inside);
    if (existsSync(path)) return path;
  }
  throw new Error(`${packageName} is not installed beside ${dirname(import.meta.filename)}: run npm ci`);
}
