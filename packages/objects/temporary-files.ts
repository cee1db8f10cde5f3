import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

/** Time without writes after which a temporary file of another machine is abandoned, in ms. */
const FOREIGN_IDLE_MS = 15 * 60_000;

/**
 * Names files that are being written, and removes those whose writer died. A name identifies the writing process
 * (machine and process namespace, pid, start time), so the next process on the same machine can remove a killed
 * one's files at once. On shared volumes, files of other machines are removed by age.
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

  /** Removes files that no living process writes any more; returns their number. */
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

/** Returns a short hash of everything that makes pids comparable: the machine, its boot and the process namespace. */
function machineId(): string {
  const facts = [
    hostname(),
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    attempt(() => readlinkSync('/proc/self/ns/pid')),
  ];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}

/** Returns the start time of a process in clock ticks since boot; undefined without /proc. */
function startOf(pid: number): string | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the command in parentheses and may contain spaces; the start time is field 22.
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
