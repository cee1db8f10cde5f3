import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { run } from '@semblance/common/process/run';
import { lock } from '@semblance/local/process/lock';
import { cacheFolder, ToolchainError } from '@semblance/local/toolchain/tools';

/** Files of one folder of a Go module, pinned as in a go.sum. */
export type ModuleFiles = {
  readonly module: string;
  readonly version: string;
  /** Hash of the module's zip, as in a go.sum: `h1:…`. */
  readonly sum: string;
  readonly folder: string;
  readonly names: RegExp;
};

/**
 * Returns a folder with files that a project publishes in its Go module, such as schemas. Go fetches them once,
 * through the proxy that this machine uses; they are cached beside the built tools.
 *
 * @throws ToolchainError when there is no Go, or the module cannot be fetched or is not the pinned one
 */
export async function moduleFiles(
  wanted: ModuleFiles,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const { module, version, names } = wanted;
  const key = createHash('sha256')
    .update(JSON.stringify([wanted, names.source]))
    .digest('hex')
    .slice(0, 12);
  const folder = join(cacheFolder(env), 'schemas');
  const target = join(folder, `${module.replaceAll('/', '-')}-${version}-${key}`);
  if (existsSync(target)) return target;
  const held = await lock(join(folder, 'fetch.lock'));
  const unfinished = await mkdtemp(join(folder, '.unfinished-'));
  try {
    if (existsSync(target)) return target;
    const source = join(await fetched(wanted, unfinished, env), wanted.folder);
    const found = (await readdir(source)).filter((name) => names.test(name));
    if (found.length === 0) throw new Error(`${module}@${version} has no ${names} in ${wanted.folder}`);
    const files = join(unfinished, 'files');
    await mkdir(files);
    for (const name of found) await copyFile(join(source, name), join(files, name));
    await rename(files, target);
    return target;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
    held.release();
  }
}

/** Makes Go fetch the module into its cache, and returns the folder there. */
async function fetched(wanted: ModuleFiles, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const name = `${wanted.module}@${wanted.version}`;
  const go = findOnPath('go', env.PATH);
  if (!go)
    throw new ToolchainError('tool_missing', `there is no Go to fetch ${name} with: https://go.dev/dl`);
  const { GOFLAGS: _flags, ...rest } = env;
  const output = await run(go, ['mod', 'download', '-json', name], {
    cwd,
    env: { ...rest, GOWORK: 'off' },
  }).catch((cause: Error) => {
    throw new ToolchainError('build_failed', `${name} cannot be fetched: ${cause.message}`, { cause });
  });
  const { Dir: dir, Sum: sum } = JSON.parse(output) as { Dir: string; Sum: string };
  if (sum !== wanted.sum)
    throw new ToolchainError('build_failed', `${name} is ${sum}, and ${wanted.sum} was expected`);
  return dir;
}
