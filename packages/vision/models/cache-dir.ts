import { accessSync, constants, lstatSync, mkdirSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** Cache root: SEMBLANCE_CACHE_DIR, else $XDG_CACHE_HOME/semblance, else ~/.cache/semblance. */
export function defaultCacheDir(env: NodeJS.ProcessEnv = process.env): string {
  if (env.SEMBLANCE_CACHE_DIR) return env.SEMBLANCE_CACHE_DIR;
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'semblance');
}

/**
 * As {@link defaultCacheDir}, but where nothing was set and the home may not be written to, as in a Pod, a folder of our
 * own beside the temporary files.
 */
export function usableCacheDir(env: NodeJS.ProcessEnv = process.env, temporary = tmpdir()): string {
  const wanted = defaultCacheDir(env);
  if (env.SEMBLANCE_CACHE_DIR || isWritable(wanted)) return wanted;
  const uid = process.getuid?.() ?? 0;
  const own = join(temporary, `semblance-cache-${uid}`);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  const found = lstatSync(own);
  // Whoever else may write there could have us load networks of theirs.
  if (!found.isDirectory() || found.uid !== uid)
    throw new Error(
      `${own} belongs to somebody else: set SEMBLANCE_CACHE_DIR to a folder for converted networks`,
    );
  return own;
}

/** Whether a folder can be written to, or made. */
function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return isMissing && dirname(path) !== path && isWritable(dirname(path));
  }
}
