import { spawnSync } from 'node:child_process';
import { constants, statSync } from 'node:fs';
import { chown, lstat, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findOnPath } from '@semblance/common/process/find-on-path';

/** uid and gid of "nobody", the account that owns nothing; the number is the same on every supported system. */
export const NOBODY = 65_534;

/** A way in which root runs a program that refuses to be root. */
export type Disguise = {
  name: 'none' | 'user namespace' | 'kept capability' | 'other user';
  /** Arguments before the command. */
  prefix: string[];
  /** uid that must own the program's files, as the kernel sees it; undefined when nothing has to change. */
  owner?: number;
};

export class RootRefusedError extends Error {
  override name = 'RootRefusedError';
  readonly code = 'root_refused';
  readonly retryable = false;
}

/**
 * Finds a way to run a program that refuses uid 0, as PostgreSQL does. It tries in this order:
 *
 * 1. This process is not root: nothing to do.
 * 2. A user namespace in which root's own files belong to "nobody": changes no ownership, reaches every folder
 *    that root reaches. Most containers refuse it.
 * 3. Become "nobody", keeping only the capability to enter folders closed to it (a checkout under /root): works in
 *    containers; the data folder changes its owner.
 * 4. The same without the capability, where that is refused too: only if every folder on the way to `paths` lets
 *    others enter.
 *
 * Each way is tested before it is chosen, because the kernel, seccomp or AppArmor may refuse it.
 *
 * @param paths files and folders that the program must reach
 * @throws RootRefusedError when no way works
 */
export function chooseDisguise(paths: string[]): Disguise {
  if (process.getuid?.() !== 0) return { name: 'none', prefix: [] };

  const unshare = findOnPath('unshare');
  if (unshare) {
    const prefix = [unshare, '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];
    if (works(prefix)) return { name: 'user namespace', prefix, owner: 0 };
  }
  const setpriv = findOnPath('setpriv');
  if (setpriv) {
    const become = [setpriv, `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
    const keep = ['--inh-caps=-all,+dac_override', '--ambient-caps=-all,+dac_override', '--'];
    if (works([...become, ...keep]))
      return { name: 'kept capability', prefix: [...become, ...keep], owner: NOBODY };
    if (paths.every(isOpenToOthers) && works([...become, '--'])) {
      return { name: 'other user', prefix: [...become, '--'], owner: NOBODY };
    }
  }
  throw new RootRefusedError(
    'PostgreSQL refuses to run as root, and this system lets root neither enter a user namespace (unshare) nor ' +
      'become another user (setpriv). Run this as an ordinary user, or set SEMBLANCE_POSTGRES_URL to a server.',
  );
}

/** Gives a folder and everything in it to `owner`, unless the folder itself already belongs to `owner`. */
export async function ensureOwner(path: string, owner: number): Promise<void> {
  if ((await lstat(path)).uid === owner) return;
  const walk = async (entry: string): Promise<void> => {
    if ((await lstat(entry)).isDirectory()) {
      for (const name of await readdir(entry)) await walk(join(entry, name));
    }
    await chown(entry, owner, owner);
  };
  // The folder itself is changed last, so an interrupted walk is repeated.
  await walk(path);
}

function works(prefix: string[]): boolean {
  const [command, ...args] = prefix;
  if (!command) return false;
  const result = spawnSync(command, [...args, '/bin/sh', '-c', 'test "$(id -u)" != 0'], { stdio: 'ignore' });
  return result.status === 0;
}

function isOpenToOthers(path: string): boolean {
  for (let folder = path; ; folder = dirname(folder)) {
    try {
      const { mode } = statSync(folder);
      if ((mode & constants.S_IXOTH) === 0) return false;
    } catch {
      // The entry does not exist yet, so its parent decides.
    }
    if (folder === dirname(folder)) return true;
  }
}
