import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '@semblance/local/toolchain/tools';

const run = promisify(execFile);

/**
 * Returns the path of a Python with these packages (`name==version`). The environment is created once in the user's
 * cache; it needs `python3` with `venv`, and a package index.
 */
export async function pythonWith(packages: readonly string[]): Promise<string> {
  const { stdout: version } = await run('python3', ['-VV']);
  const hash = createHash('sha256').update(version).update(packages.join());
  const cache = join(cacheFolder(process.env), 'python');
  const env = join(cache, hash.digest('hex').slice(0, 20));
  const python = (dir: string) => join(dir, 'bin', 'python');
  if (existsSync(env)) return python(env);
  await mkdir(cache, { recursive: true });
  const made = await mkdtemp(join(cache, 'making-'));
  try {
    await run('python3', ['-m', 'venv', made]);
    await run(python(made), ['-m', 'pip', 'install', '--quiet', '--no-input', ...packages]);
    // A Python finds its packages by its own location, so the environment may be moved. Another process may have
    // created it first.
    await rename(made, env).catch((error: NodeJS.ErrnoException) => {
      if (!existsSync(env)) throw error;
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return python(env);
}
