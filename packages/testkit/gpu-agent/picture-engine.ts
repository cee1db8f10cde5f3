import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Engine } from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { EngineSource } from '@semblance/gpu-agent/engines/registry';
import sharp from 'sharp';

/** Small real engine whose output is the input `image` as a PNG file. */
export const PICTURE_ENGINE: EngineSource = {
  name: 'picture',
  module: import.meta.url,
  factory: 'createPictureEngine',
};

export function createPictureEngine(_options: FactoryOptions): Engine {
  return {
    name: 'picture',
    version: '1',
    capabilities: [{ capability: 'face-swap-image', slots: 1, memoryMib: 64 }],
    warmUp: async () => {},
    async render({ inputs, parameters, outputDir }) {
      const outputPath = join(outputDir, 'out.png');
      // A faulty engine would leave garbage with the name of a picture.
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
