import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Engine } from '@semblance/engine-api/engine';
import type { EngineOptions } from '@semblance/engine-api/engine-options';
import type { EngineSource } from '@semblance/gpu-agent/engines/registry';
import sharp from 'sharp';

/** A small real engine whose output is a picture: that of the input `image`, as a PNG file. */
export const PICTURE_ENGINE: EngineSource = {
  name: 'picture',
  module: import.meta.url,
  factory: 'createPictureEngine',
};

export function createPictureEngine(_options: EngineOptions): Engine {
  return {
    name: 'picture',
    version: '1',
    capabilities: [{ capability: 'face-swap-image', slots: 1, memoryMib: 64 }],
    warmUp: async () => {},
    async render({ inputs, parameters, outputDir }) {
      const outputPath = join(outputDir, 'out.png');
      // Garbage in the form of a picture is what an engine that errs would leave.
      if (parameters.mode === 'copy') await copyFile(inputs.image ?? '', outputPath);
      else await sharp(inputs.image).png().toFile(outputPath);
      return {
        outputPath,
        contentType: 'image/png',
        units: { unit: 'image', quantity: 1 },
        stages: [{ name: 'render', milliseconds: 1 }],
        details: {},
      };
    },
    close: async () => {},
  };
}
