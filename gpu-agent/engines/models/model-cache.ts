import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { MODELS, type ModelName, weightsDirectory } from './catalog.ts';
import { readTfjsModel } from './tfjs-model.ts';
import { convertTfjsToOnnx } from './tfjs-to-onnx.ts';

/** Raise when the converter's output changes, so that files of an older one are not used. */
const CONVERTER_VERSION = 2;

/** Cache root: SEMBLANCE_CACHE_DIR, else $XDG_CACHE_HOME/semblance, else ~/.cache/semblance. */
export function defaultCacheDir(env: NodeJS.ProcessEnv = process.env): string {
  if (env.SEMBLANCE_CACHE_DIR) return env.SEMBLANCE_CACHE_DIR;
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'semblance');
}

/**
 * Path of the ONNX form of a shipped network, converted on first use. The file is named after the hash of the
 * weights and the converter's version, appears by rename only, and so may be asked for by several processes at once.
 * @param options.refresh convert again although the file exists (it could not be loaded).
 */
export async function ensureOnnxModel(
  name: ModelName,
  options: { cacheDir?: string; refresh?: boolean } = {},
): Promise<string> {
  const source = weightsDirectory();
  const [json, weights] = await Promise.all([
    readFile(join(source, `${name}.json`)),
    readFile(join(source, `${name}.bin`)),
  ]);
  const hash = createHash('sha256');
  hash.update(`${CONVERTER_VERSION}\0${name}\0${json.length}\0`).update(json).update(weights);
  const directory = join(options.cacheDir ?? defaultCacheDir(), 'models');
  const path = join(directory, `${name}-${hash.digest('hex').slice(0, 24)}.onnx`);
  if (!options.refresh && (await fileExists(path))) return path;
  const model = readTfjsModel(json.toString('utf8'), weights);
  await writeAtomically(directory, path, convertTfjsToOnnx(model, { name, outputs: MODELS[name].outputs }));
  return path;
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
