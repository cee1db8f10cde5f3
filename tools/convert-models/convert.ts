import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NETWORKS, type NetworkName, SHIPPED } from '@semblance/vision/internal/models/networks';
import {
  isTfliteModel,
  MODELS,
  NSFWJS_OUTPUTS,
  TFLITE_MODELS,
  tfliteFile,
  weightsDirectory,
} from './catalog.ts';
import { buildFaceFeatures } from './face-api.ts';
import { readNsfwjs } from './nsfwjs.ts';
import { readTfjsModel } from './tfjs-model.ts';
import { convertTfjsToOnnx } from './tfjs-to-onnx.ts';
import { readTfliteModel } from './tflite-model.ts';
import { convertTfliteToOnnx } from './tflite-to-onnx.ts';

/**
 * Converts every network of packages/vision that is not shipped as ONNX. Run by `npm run generate`; an argument is another output
 * folder.
 */
const out = process.argv[2] ?? join(import.meta.dirname, '..', '..', 'packages', 'vision', 'models', 'gen');

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
for (const name of NETWORKS) {
  if (name !== SHIPPED) await writeFile(join(out, `${name}.onnx`), await converted(name));
}

async function converted(name: Exclude<NetworkName, typeof SHIPPED>): Promise<Uint8Array> {
  if (name === 'face_features') return buildFaceFeatures();
  if (isTfliteModel(name)) {
    const { outputs } = TFLITE_MODELS[name];
    return convertTfliteToOnnx(readTfliteModel(await readFile(tfliteFile(name))), { name, outputs });
  }
  if (name === 'nudity') return convertTfjsToOnnx(readNsfwjs(), { name, outputs: NSFWJS_OUTPUTS });
  const source = weightsDirectory();
  const json = await readFile(join(source, `${name}.json`), 'utf8');
  const weights = await readFile(join(source, `${name}.bin`));
  return convertTfjsToOnnx(readTfjsModel(json, weights), { name, outputs: MODELS[name].outputs });
}
