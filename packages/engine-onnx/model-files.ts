import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** Finds a file of the manifest, and compares its hash. */
export async function locate(
  root: string,
  { file, sha256: wanted }: { readonly file: string; readonly sha256: string },
  signal?: AbortSignal,
): Promise<{ path: string } | { fault: string }> {
  const found = await findFile(root, file);
  if ('fault' in found) return found;
  const hash = await sha256(found.path, signal);
  if (hash !== wanted) return { fault: `sha256: expected ${wanted}, found ${hash}` };
  return found;
}

/** Finds a file below a directory, also behind links, and whatever it contains. */
export async function findFile(root: string, file: string): Promise<{ path: string } | { fault: string }> {
  let path: string;
  try {
    path = await realpath(join(root, file));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { fault: 'there is no such file' };
    return { fault: `cannot be read: ${(error as Error).message}` };
  }
  const below = relative(root, path);
  if (below.startsWith('..') || isAbsolute(below))
    return { fault: `is a link that leaves the model directory, to ${path}` };
  if (!(await stat(path)).isFile()) return { fault: 'is not a file' };
  return { path };
}

export async function sha256(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, signal ? { signal } : {});
  return hash.digest('hex');
}
