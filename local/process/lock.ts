import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * A lock that the kernel drops when its holder dies in any way. So no stale lock must be detected, and two
 * processes never both believe that a dead holder's lock is theirs. Node.js offers no file locks, but its SQLite
 * takes real ones: an exclusive transaction on an empty database is the lock.
 */
export type Lock = { release(): void };

/** Tries once to take the lock; undefined when another process holds it. */
export function tryLock(path: string): Lock | undefined {
  mkdirSync(dirname(path), { recursive: true });
  // The timeout outlasts another process's `isLocked`.
  const database = new DatabaseSync(path, { timeout: 250 });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isBusy(error)) return undefined;
    throw new Error(`cannot lock ${path}`, { cause: error });
  }
  writeFileSync(`${path}.holder`, `${process.pid}\n`);
  return {
    release() {
      if (!database.isOpen) return;
      rmSync(`${path}.holder`, { force: true });
      database.close();
    },
  };
}

/**
 * Waits for the lock.
 *
 * @param onWait called once when the lock is not free at once, with the holder's pid if it is known
 */
export async function lock(
  path: string,
  options: { signal?: AbortSignal; onWait?: (holder: number | undefined) => void } = {},
): Promise<Lock> {
  for (let first = true; ; first = false) {
    options.signal?.throwIfAborted();
    const held = tryLock(path);
    if (held) return held;
    if (first) options.onWait?.(holderOf(path));
    await delay(200, undefined, { signal: options.signal });
  }
}

/** Returns the pid that the holder wrote down, if any. It is only for display. */
export function holderOf(path: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(`${path}.holder`, 'utf8'), 10) || undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether a living process holds the lock. */
export function isLocked(path: string): boolean {
  if (!existsSync(path)) return false;
  const database = new DatabaseSync(path, { timeout: 0, readOnly: true });
  try {
    database.exec('SELECT 1 FROM sqlite_schema');
    return false;
  } catch (error) {
    if (isBusy(error)) return true;
    throw new Error(`cannot look at the lock ${path}`, { cause: error });
  } finally {
    database.close();
  }
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === 5; // SQLITE_BUSY
}
