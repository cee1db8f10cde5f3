import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PACKAGE = join(import.meta.dirname, '../python');
const PROTO = join(import.meta.dirname, '../../../../proto');
/** What builds the package, as its pyproject.toml says. */
const BUILD = ['setuptools==80.9.0', 'wheel==0.45.1', 'grpcio-tools==1.85.1'];

/** Whether this machine can make virtual environments of a Python that the pinned packages are for; tests of Python sidecars are left out where it cannot. */
export async function hasPython(): Promise<boolean> {
  try {
    await run('python3', ['-c', 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))']);
    return true;
  } catch {
    return false;
  }
}

/**
 * Path of a python in which `semblance_sidecar` and what its example needs are installed; made once for each state of
 * them, in the cache of this user.
 */
export async function pythonEnv(): Promise<string> {
  const { stdout: version } = await run('python3', ['-VV']);
  const hash = createHash('sha256').update(version).update(BUILD.join());
  for (const file of sources()) hash.update(file).update(readFileSync(file));
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'semblance', 'python');
  const env = join(cache, hash.digest('hex').slice(0, 20));
  const python = (dir: string) => join(dir, 'bin', 'python');
  if (existsSync(env)) return python(env);
  await mkdir(cache, { recursive: true });
  const made = await mkdtemp(join(cache, 'making-'));
  try {
    // Building in place would leave files in the repository.
    const source = join(made, 'source');
    cpSync(PACKAGE, join(source, 'python'), { recursive: true });
    cpSync(join(PROTO, 'semblance'), join(source, 'proto', 'semblance'), { recursive: true });
    await run('python3', ['-m', 'venv', made]);
    const pip = (...args: string[]) => run(python(made), ['-m', 'pip', 'install', '--quiet', ...args]);
    await pip('-r', join(PACKAGE, 'requirements.txt'), ...BUILD);
    await pip('--no-deps', '--no-build-isolation', join(source, 'python'));
    // It is found by where its python lies, so that it may be moved. Another process may have been first.
    await rename(made, env).catch((error: NodeJS.ErrnoException) => {
      if (!existsSync(env)) throw error;
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return python(env);
}

function sources(): string[] {
  const library = join(PACKAGE, 'semblance_sidecar');
  const own = readdirSync(library).filter((name) => name.endsWith('.py'));
  return [
    ...['pyproject.toml', 'setup.py', 'requirements.txt'].map((name) => join(PACKAGE, name)),
    ...own.toSorted().map((name) => join(library, name)),
    join(PROTO, 'semblance/engine/v1/engine.proto'),
  ];
}
