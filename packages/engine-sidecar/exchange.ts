import { constants, createWriteStream } from 'node:fs';
import { chmod, copyFile, lstat, mkdir, open, readlink, realpath, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { exhausted } from '@semblance/engine-api/exhausted';
import { ContractError } from './contract-error.ts';

/** Folder of renders beside the socket; its content belongs to the one agent that uses the sidecar. */
const RENDERS = 'work';
/** Largest output of a render, because no larger upload is ever signed. */
const MAX_OUTPUT_BYTES = 2 * 1024 ** 3;

/** The files of one render, in the directory that agent and sidecar share. */
export interface ExchangeDir {
  /** Input role → path relative to the shared directory, as the sidecar receives it. */
  readonly inputs: Readonly<Record<string, string>>;
  readonly output: string;
  /** Copies other inputs, and removes those that were there. Returns their paths, as `inputs` has them. */
  replace(inputs: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>>;
  /**
   * Copies the sidecar's output to a place that the sidecar cannot reach, and returns the path.
   * @throws ContractError unless it is a regular, non-empty file in its folder, reached without links
   */
  take(name: string, outputDir: string, signal: AbortSignal): Promise<string>;
  remove(): Promise<void>;
}

export interface Exchange {
  /** Makes the folder of one render and copies the inputs, so that the sidecar touches none of the agent's files. */
  open(id: string, inputs: Readonly<Record<string, string>>): Promise<ExchangeDir>;
  /** Removes everything: at the end, or what a killed process left. */
  clear(): Promise<void>;
}

/**
 * @param socket path of the socket, whose directory is shared
 * @param name folder in that directory
 */
export function createExchange(socket: string, name = RENDERS): Exchange {
  const shared = dirname(socket);
  const root = join(shared, name);

  async function openRoot(): Promise<void> {
    await mkdir(root, { recursive: true });
    // A link in this place would redirect the removal of files.
    if (!(await lstat(root)).isDirectory()) throw new ContractError(`${root} is not a directory`);
    await chmod(root, 0o770);
  }

  return {
    async open(id, inputs) {
      await openRoot();
      const dir = join(root, id);
      const out = join(dir, 'out');
      const copyIn = async (given: Readonly<Record<string, string>>) => {
        for (const [role, path] of Object.entries(given)) {
          const copy = join(dir, 'in', role);
          await copyFile(path, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
          await chmod(copy, 0o640);
        }
        return Object.fromEntries(Object.keys(given).map((role) => [role, `${name}/${id}/in/${role}`]));
      };
      let copied: Readonly<Record<string, string>>;
      const remove = () => rm(dir, { recursive: true, force: true, maxRetries: 3 });
      try {
        await folder(dir);
        await folder(join(dir, 'in'));
        await folder(out);
        copied = await copyIn(inputs);
      } catch (error) {
        await remove();
        throw error;
      }
      return {
        inputs: copied,
        output: `${name}/${id}/out`,
        async replace(others) {
          await rm(join(dir, 'in'), { recursive: true, force: true });
          await folder(join(dir, 'in'));
          return copyIn(others);
        },
        take: (file, outputDir, signal) => take(join(out, file), join(outputDir, file), signal),
        remove,
      };
    },
    async clear() {
      const found = await lstat(root).catch(() => undefined);
      if (found?.isDirectory()) await rm(root, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/**
 * Makes a folder writable for a common group, whatever the umask, because the two containers may run as different
 * users.
 */
async function folder(path: string): Promise<void> {
  await mkdir(path);
  await chmod(path, 0o770);
}

async function take(from: string, to: string, signal: AbortSignal): Promise<string> {
  const expected = join(await realpath(dirname(dirname(dirname(from)))), ...from.split('/').slice(-3));
  // The file is opened once and checked through the handle, so that it cannot be exchanged between check and copy.
  // Without O_NONBLOCK a named pipe would block the open for ever.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(from, flags).catch((error: NodeJS.ErrnoException) => {
    throw exhausted(error) ?? new ContractError(`the output cannot be opened (${error.code})`);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new ContractError('the output is not a regular file');
    if (stats.size === 0) throw new ContractError('the output is empty');
    if (stats.size > MAX_OUTPUT_BYTES) throw new ContractError(`the output has ${stats.size} bytes`);
    if ((await pathOf(file.fd, from)) !== expected)
      throw new ContractError('the output is outside its folder');
    // Copies no more than the checked size, because the sidecar may go on writing.
    const bytes = file.createReadStream({ autoClose: false, start: 0, end: stats.size - 1 });
    await pipeline(bytes, createWriteStream(to, { flags: 'wx', mode: 0o600 }), { signal });
    return to;
  } finally {
    await file.close();
  }
}

/** Returns the path of an open file; the real path of `name` where the system does not tell. */
async function pathOf(fd: number, name: string): Promise<string> {
  return readlink(`/proc/self/fd/${fd}`).catch(() => realpath(name));
}
