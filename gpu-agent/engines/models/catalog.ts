import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { ConvertOptions } from './tfjs-to-onnx.ts';

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
} as const satisfies Record<string, Pick<ConvertOptions, 'outputs'>>;

export type ModelName = keyof typeof MODELS;

/** Directory of the installed weights. @throws Error when `@vladmandic/human` is not installed. */
export function weightsDirectory(): string {
  // The package's `exports` hide package.json and the models, so the folder is looked up by path.
  for (const root of createRequire(import.meta.url).resolve.paths('@vladmandic/human') ?? []) {
    const directory = join(root, '@vladmandic', 'human', 'models');
    if (existsSync(directory)) return directory;
  }
  throw new Error(`@vladmandic/human is not installed beside ${dirname(import.meta.filename)}: run npm ci`);
}
