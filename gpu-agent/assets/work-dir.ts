import { lstat, mkdir, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import type { Logger } from '@semblance/common/logging';
import { AssetError, diskError } from './errors.ts';

const RUN_PREFIX = 'run-';

/** Folders of one attempt: fetched inputs, and the engine's output. */
export interface AttemptDir {
  readonly inputs: string;
  readonly output: string;
  remove(): Promise<void>;
}

/** The files of one agent process, under `<root>/run-<incarnation>`, closed to other users. */
export interface WorkDir {
  readonly path: string;
  /** Temporary files of engine processes. */
  readonly engines: string;
  attempt(name: string): Promise<AttemptDir>;
  remove(): Promise<void>;
}

/**
 * Creates the folder of this process and removes those of killed processes of the same agent. One agent owns a work
 * directory, and an agent is one process at a time. Only folders named `run-…` are removed.
 *
 * @throws AssetError `workdir_unusable` when it cannot be written, or when another live process uses it
 */
export async function openWorkDir(options: {
  readonly root: string;
  readonly incarnation: string;
  readonly logger: Logger;
}): Promise<WorkDir> {
  const { root, incarnation, logger } = options;
  try {
    await mkdir(root, { recursive: true, mode: 0o700 });
    const path = join(root, RUN_PREFIX + incarnation);
    await mkdir(path, { mode: 0o700 });
    try {
      await writeFile(join(path, 'owner.json'), JSON.stringify(await identity(process.pid)), { mode: 0o600 });
      await sweep(root, path, logger);
    } catch (error) {
      await rm(path, { recursive: true, force: true });
      throw error;
    }
    const [attempts, engines] = [join(path, 'attempts'), join(path, 'engines')];
    await mkdir(attempts, { mode: 0o700 });
    await mkdir(engines, { mode: 0o700 });
    return {
      path,
      engines,
      attempt: (name) => makeAttemptDir(join(attempts, name)),
      remove: () => rm(path, { recursive: true, force: true, maxRetries: 3 }),
    };
  } catch (error) {
    throw diskError(error, root);
  }
}

async function makeAttemptDir(path: string): Promise<AttemptDir> {
  try {
    await mkdir(path, { mode: 0o700 });
    const [inputs, output] = [join(path, 'in'), join(path, 'out')];
    await mkdir(inputs, { mode: 0o700 });
    await mkdir(output, { mode: 0o700 });
    return { inputs, output, remove: () => rm(path, { recursive: true, force: true, maxRetries: 3 }) };
  } catch (error) {
    throw diskError(error, path);
  }
}

async function sweep(root: string, own: string, logger: Logger): Promise<void> {
  for (const name of await readdir(root)) {
    const path = join(root, name);
    if (!name.startsWith(RUN_PREFIX) || path === own) continue;
    const owner = await readOwner(path);
    if (owner && owner.pid !== process.pid && sameProcess(owner, await identity(owner.pid))) {
      throw new AssetError(
        'workdir_unusable',
        `${root} is used by process ${owner.pid}; give each agent a work directory of its own`,
      );
    }
    await rm(path, { recursive: true, force: true });
    logger.info({ path }, 'removed the files of an ended process');
  }
}

interface Identity {
  readonly pid: number;
  /** Start time in clock ticks since boot; null when the system does not tell it or the process is gone. */
  readonly startTicks: string | null;
}

async function identity(pid: number): Promise<Identity> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The start time is field 22. The second field, the command in parentheses, may contain any character.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { pid, startTicks: fields[19] ?? null };
  } catch {
    return { pid, startTicks: null };
  }
}

async function readOwner(path: string): Promise<Identity | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(join(path, 'owner.json'), 'utf8'));
    const { pid, startTicks } = value as Identity;
    return Number.isInteger(pid) ? { pid, startTicks } : undefined;
  } catch {
    return undefined;
  }
}

function sameProcess(owner: Identity, now: Identity): boolean {
  return owner.startTicks !== null && owner.startTicks === now.startTicks;
}

/**
 * Returns the size of an engine's output.
 * @throws Error unless it is a regular, non-empty file inside its folder, reached without links
 */
export async function checkedOutput(path: string, outputDir: string): Promise<number> {
  const stats = await lstat(path);
  if (!stats.isFile()) throw new Error('the output is not a regular file');
  const [file, folder] = await Promise.all([realpath(path), realpath(outputDir)]);
  if (!file.startsWith(folder + sep)) throw new Error('the output is outside its folder');
  if (stats.size === 0) throw new Error('the output is empty');
  return stats.size;
}
