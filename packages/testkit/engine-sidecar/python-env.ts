import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '@semblance/local/toolchain/tools';

const run = promisify(execFile);
const PACKAGE = join(import.meta.dirname, '../../engine-sidecar/python');
const PROTO = join(import.meta.dirname, '../../../proto');
/** Packages that build ours, as in its pyproject.toml. */
const BUILD = ['setuptools==80.9.0', 'wheel==0.45.1', 'grpcio-tools==1.85.1'];

/**
 * Detects whether this machine can create virtual environments of a Python that the pinned packages support. Tests
 * of Python sidecars are skipped where it cannot.
 */
export async function hasPython(): Promise<boolean> {
  try {
    await run('python3', ['-c', 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))']);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the path of a Python that has `semblance_sidecar` and the packages of its example. It uses two
 * environments in the user's cache, each created once: a large one with pinned packages, and on top of it a small
 * one with our package in its present state.
 */
export const pythonEnv = (): Promise<string> => environment('requirements.txt');

/** Returns the same with torch and diffusers: 6 GB, because torch from PyPI brings CUDA with it. */
export const diffusersEnv = (): Promise<string> =>
  environment('requirements.txt', 'requirements-diffusers.txt');

/** Returns the path of a Python that has the packages of a file of requirements. */
export async function pythonWith(requirements: string): Promise<string> {
  const { stdout: version } = await run('python3', ['-VV']);
  const contents = [version, readFileSync(requirements, 'utf8')];
  const env = await madeOnce('packages', contents, async (dir) => {
    await run('python3', ['-m', 'venv', dir]);
    await pip(dir, '-r', requirements);
  });
  return pythonOf(env);
}

async function environment(...files: string[]): Promise<string> {
  const { stdout: version } = await run('python3', ['-VV']);
  const paths = files.map((file) => join(PACKAGE, file));
  const requirements = paths.map((path) => readFileSync(path, 'utf8')).join('');
  const packages = await madeOnce('packages', [version, BUILD.join(), requirements], async (dir) => {
    await run('python3', ['-m', 'venv', dir]);
    await pip(dir, ...paths.flatMap((path) => ['-r', path]), ...BUILD);
  });
  const own = sources().flatMap((file) => [file, readFileSync(file, 'utf8')]);
  const env = await madeOnce('sidecar', [packages, ...own], async (dir) => {
    // A build in place would leave files in the repository.
    const source = join(dir, 'source');
    cpSync(PACKAGE, join(source, 'python'), { recursive: true });
    cpSync(join(PROTO, 'semblance'), join(source, 'proto', 'semblance'), { recursive: true });
    await run('python3', ['-m', 'venv', '--without-pip', dir]);
    const site = await sitePackages(dir);
    await writeFile(join(site, 'packages.pth'), `${await sitePackages(packages)}\n`);
    await pip(packages, '--no-deps', '--no-build-isolation', '--target', site, join(source, 'python'));
  });
  return pythonOf(env);
}

const pythonOf = (env: string) => join(env, 'bin', 'python');
const pip = (env: string, ...args: string[]) =>
  run(pythonOf(env), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...args]);

async function sitePackages(env: string): Promise<string> {
  const print = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  return (await run(pythonOf(env), ['-c', print])).stdout.trim();
}

/**
 * Creates a cache folder for these contents and renames it into place when it is complete. An environment may be
 * moved, because it is found by its Python.
 */
async function madeOnce(
  kind: string,
  contents: readonly string[],
  make: (dir: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  for (const content of contents) hash.update(content).update('\0');
  const cache = join(cacheFolder(process.env), 'python');
  const dir = join(cache, `${kind}-${hash.digest('hex').slice(0, 16)}`);
  if (existsSync(dir)) return dir;
  await mkdir(cache, { recursive: true });
  const made = await mkdtemp(join(cache, 'making-'));
  try {
    await make(made);
    // Another process may have created it first.
    await rename(made, dir).catch((error: NodeJS.ErrnoException) => {
      if (!existsSync(dir)) throw error;
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return dir;
}

function sources(): string[] {
  const own = ['semblance_sidecar', 'semblance_sidecars'].flatMap((library) =>
    readdirSync(join(PACKAGE, library), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.py'))
      .map((name) => join(PACKAGE, library, name)),
  );
  return [
    ...['pyproject.toml', 'setup.py'].map((name) => join(PACKAGE, name)),
    ...own.toSorted(),
    ...['v1/engine', 'v1/findings', 'live/v1/live_engine'].map((name) =>
      join(PROTO, `semblance/engine/${name}.proto`),
    ),
  ];
}
