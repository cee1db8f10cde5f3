import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultCacheDir } from './cache-dir.ts';
import {
  isTfliteModel,
  MODELS,
  type ModelName,
  TFLITE_MODELS,
  type TfjsModelName,
  type TfliteModelName,
  tfliteFile,
  weightsDirectory,
} from './catalog.ts';
import { readTfjsModel } from './tfjs-model.ts';
import { convertTfjsToOnnx } from './tfjs-to-onnx.ts';
import { readTfliteModel } from './tflite-model.ts';
import { convertTfliteToOnnx } from './tflite-to-onnx.ts';

/** Raise when the converter's output changes, so that files of an older one are not used. */
const CONVERTER_VERSION = 3;

/**
 * Path of the ONNX form of a shipped network, converted on first use. The file is named after the hash of the
 * weights and the converter's version, appears by rename only, and so may be asked for by several processes at once.
 * @param options.refresh convert again although the file exists (it could not be loaded).
 */
export async function ensureOnnxModel(
  name: ModelName,
  options: { cacheDir?: string; refresh?: boolean } = {},
): Promise<string> {
  const { parts, convert } = await (isTfliteModel(name) ? readTflite(name) : readTfjs(name));
  const hash = createHash('sha256');
  hash.update(`${CONVERTER_VERSION}\0${name}\0`);
  for (const part of parts) hash.update(`${part.length}\0`).update(part);
  const directory = join(options.cacheDir ?? defaultCacheDir(), 'models');
  const path = join(directory, `${name}-${hash.digest('hex').slice(0, 24)}.onnx`);
  if (!options.refresh && (await fileExists(path))) return path;
  await writeAtomically(directory, path, convert());
  return path;
}

interface Source {
  /** The files' bytes. */
  readonly parts: readonly Buffer[];
  readonly convert: () => Uint8Array;
}

async function readTfjs(name: TfjsModelName): Promise<Source> {
  const source = weightsDirectory();
  const [json, weights] = await Promise.all([
    readFile(join(source, `${name}.json`)),
    readFile(join(source, `${name}.bin`)),
  ]);
  const { outputs } = MODELS[name];
  return {
    parts: [json, weights],
    convert: () => convertTfjsToOnnx(readTfjsModel(json.toString('utf8'), weights), { name, outputs }),
  };
}

async function readTflite(name: TfliteModelName): Promise<Source> {
  const bytes = await readFile(tfliteFile(name));
  const { outputs } = TFLITE_MODELS[name];
  return { parts: [bytes], convert: () => convertTfliteToOnnx(readTfliteModel(bytes), { name, outputs }) };
}

async function fileExists(path: string): Promise<boolean> {
  try {
    return (await stat(path)).size > 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

async function writeAtomically(directory: string, path: string, bytes: Uint8Array): Promise<void> {
  await mkdir(directory, { recursive: true });
  const temporary = `${path}.${process.pid}.${randomUUID()}.part`;
  try {
    const file = await open(temporary, 'wx');
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
