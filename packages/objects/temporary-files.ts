import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

/** A half-written file of a process elsewhere that nobody has written to for so long is given up. */
const FOREIGN_IDLE_MS = 15 * 60_000;

/**
 * Names for files being written, and the removal of those whose writer died. A name says which process writes it
 * (machine and process namespace, pid, start time), so that the next process on the same machine can remove what a
 * killed one left at once; on shared volumes, the leftovers of other machines go by age.
 */
export class TemporaryFiles {
  readonly #folder: string;
  readonly #machine = machineId();
  readonly #prefix = `${this.#machine}.${process.pid}.${startOf(process.pid) ?? '0'}`;

  constructor(folder: string) {
    this.#folder = folder;
  }

  newPath(): string {
    return join(this.#folder, `${this.#prefix}.${randomBytes(9).toString('base64url')}`);
  }

  /** Removes what no living process writes any more; answers how many files that was. */
  async sweep(now = Date.now()): Promise<number> {
    let removed = 0;
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      if (await this.#isAlive(name, path, now)) continue;
      await rm(path, { force: true });
      removed++;
    }
    return removed;
  }

  async #isAlive(name: string, path: string, now: number): Promise<boolean> {
    const [machine, pid, start] = name.split('.');
    if (machine === this.#machine && pid && start) {
      if (!exists(Number(pid))) return false;
      const startNow = startOf(Number(pid));
      return startNow === undefined || startNow === start;
    }
    const info = await stat(path).catch(() => undefined);
    return info !== undefined && now - info.mtimeMs < FOREIGN_IDLE_MS;
  }
}

/** Short hash of what makes pids comparable: the machine, its boot and the process namespace. */
function machineId(): string {
  const facts = [
    hostname(),
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    attempt(() => readlinkSync('/proc/self/ns/pid')),
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}

/** Start time of a process in clock ticks since boot; undefined where there is no /proc. */
function startOf(pid: number): string | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the command in parentheses and may hold spaces; the start time is field 22.
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')[19];
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
