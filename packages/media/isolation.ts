import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '@semblance/common/process/find-on-path';
import { exhausted } from '@semblance/engine-api/exhausted';

const run = promisify(execFile);

/** The walls around a program that reads what strangers sent. */
export const WALLS = ['privileges', 'files', 'network', 'processes', 'programs'] as const;
export type Wall = (typeof WALLS)[number];

/** The walls of this machine, as they were tried from inside. */
export interface Isolation {
  /** `semblance-wall` with the options for what it cannot set here; undefined where it is not built. */
  readonly wall: readonly string[] | undefined;
  /** Arguments before a command that only take its network away, used without `wall`; may be empty. */
  readonly unshare: readonly string[];
  readonly stands: readonly Wall[];
  readonly missing: readonly { readonly wall: Wall; readonly why: string }[];
}

/** A wall does not stand, and `SEMBLANCE_MEDIA_ISOLATION` is `required`. */
class IsolationError extends Error {
  override readonly name = 'IsolationError';
  readonly code = 'not_isolated';
  readonly retryable = false;
}

const HELPER = join(import.meta.dirname, 'wall', 'gen', 'semblance-wall');
/** A program that is read from a cold, slow disk needs half a minute to start. */
export const PROBE_MS = 120_000;
/** A call of the helper that fails takes these walls with it. */
const GROUPS = {
  files: ['files'],
  calls: ['network', 'processes', 'programs'],
  programs: ['programs'],
} as const;

const NETWORK_NAMESPACES: readonly (readonly string[])[] = [
  ['--net'],
  ['--user', '--map-current-user', '--net'],
  ['--user', '--map-root-user', '--net'],
];

/** Whether a decoder may run with fewer walls than all: `preferred`. Anything else requires all. */
const isolationWish = () => process.env.SEMBLANCE_MEDIA_ISOLATION || 'preferred';

/**
 * Finds out which walls this machine offers, by trying each from inside.
 * @param helper path of `semblance-wall`
 * @throws EngineInterruptedError when the machine lacks the files or processes to try, so the result is unknown
 * @throws IsolationError when one does not stand and all are required
 */
export async function findIsolation(helper = HELPER): Promise<Isolation> {
  return orRefused(existsSync(helper) ? await probe(helper) : await withoutHelper());
}

/**
 * Finds out which walls a program can have, as {@link findIsolation}. A wrapper that starts another program, as of
 * pyenv or snap, does not run behind them.
 * @param args arguments with which the program says something about itself
 * @param read files that it needs for that
 */
export async function findIsolationOf(
  file: string,
  args: readonly string[],
  read?: readonly string[],
): Promise<Isolation> {
  const found = await findIsolation();
  if (!found.wall) return found;
  try {
    await askTool(found, file, args, read);
    return found;
  } catch (error) {
    const lack = exhausted(error);
    if (lack) throw lack;
    const why = ((error as { stderr?: string }).stderr || (error as Error).message).trim().slice(0, 200);
    const bare = await withoutHelper(`${file} does not run behind it: ${why}`);
    try {
      await askTool(bare, file, args, read);
    } catch (again) {
      const stillLack = exhausted(again);
      if (stillLack) throw stillLack;
      // It runs nowhere, which is not for want of a wall.
      return found;
    }
    return orRefused(bare);
  }
}

function orRefused(found: Isolation): Isolation {
  const wish = isolationWish();
  if (wish !== 'preferred' && found.missing.length > 0) {
    const missing = found.missing.map(({ wall, why }) => `${wall} (${why})`).join(', ');
    throw new IsolationError(
      `SEMBLANCE_MEDIA_ISOLATION is ${wish}, and these walls around decoders do not stand: ${missing}`,
    );
  }
  return found;
}

async function probe(helper: string): Promise<Isolation> {
  let said: string;
  try {
    said = (await run(helper, ['--probe'], { timeout: PROBE_MS, env: {}, cwd: '/' })).stdout;
  } catch (error) {
    // A temporary fault is no answer: treating it as one would run tools without walls.
    const lack = exhausted(error);
    if (lack) throw lack;
    const { stderr, message } = error as { stderr?: string; message: string };
    return withoutHelper(`semblance-wall does not run: ${(stderr || message).trim().slice(0, 200)}`);
  }
  const lines = said.split('\n');
  const stands = WALLS.filter((wall) => lines.includes(`stands ${wall}`));
  const why = (wall: Wall) =>
    lines.find((line) => line.startsWith(`missing ${wall} `))?.slice(`missing ${wall} `.length) ??
    'it does not hold here';
  const missing = WALLS.filter((wall) => !stands.includes(wall)).map((wall) => ({ wall, why: why(wall) }));
  const without = Object.keys(GROUPS).filter((group) =>
    GROUPS[group as keyof typeof GROUPS].every((wall) => !stands.includes(wall)),
  );
  return {
    wall: [helper, ...without.flatMap((group) => ['--without', group])],
    unshare: [],
    stands,
    missing,
  };
}

async function withoutHelper(
  why = 'semblance-wall was not built: no C compiler at npm ci',
): Promise<Isolation> {
  const unshare = await findUnshare();
  const stands: readonly Wall[] = unshare.length > 0 ? ['network'] : [];
  const missing = WALLS.filter((wall) => !stands.includes(wall)).map((wall) => ({ wall, why }));
  return { wall: undefined, unshare, stands, missing };
}

/** Returns the arguments before a command that give it a network namespace, where the kernel allows that. */
async function findUnshare(): Promise<readonly string[]> {
  const unshare = findOnPath('unshare');
  if (!unshare) return [];
  for (const kind of NETWORK_NAMESPACES) {
    try {
      await run(unshare, [...kind, '--', 'true'], { timeout: 5_000 });
      return [unshare, ...kind, '--'];
    } catch (error) {
      const lack = exhausted(error);
      if (lack) throw lack;
      // The kernel forbids this kind, but may allow the next one.
    }
  }
  return [];
}

/** What programs are made of. None of these folders has anything of a job, or a secret. */
const SYSTEM = [
  ...['/usr', '/lib', '/lib32', '/lib64', '/bin', '/sbin', '/nix/store', '/gnu/store'],
  ...['/etc/ld.so.cache', '/sys/devices/system/cpu'],
];

/** Returns the options of `semblance-wall` with which a program finds its libraries. */
export function pathsOf(file: string): string[] {
  const real = realPath(file);
  const libraries = (process.env.LD_LIBRARY_PATH ?? '').split(delimiter).filter(isAbsolute);
  const run = [...SYSTEM, real, join(dirname(dirname(real)), 'lib'), ...libraries];
  const devices = ['--read', '/dev/urandom', '--read', '/dev/zero', '--write', '/dev/null'];
  return [...run.flatMap((path) => ['--run', path]), ...devices];
}

/**
 * Asks a program of this machine about itself, such as its version, behind the walls: one that does not run there is
 * not taken.
 * @returns what it printed
 */
export async function askTool(
  { wall }: Isolation,
  file: string,
  args: readonly string[],
  read: readonly string[] = [],
): Promise<string> {
  const paths = () => [...pathsOf(file), ...read.flatMap((path) => ['--read', path])];
  const [program = file, ...rest] = wall
    ? [...wall, '--now', ...paths(), '--', file, ...args]
    : [file, ...args];
  return (await run(program, rest, { timeout: PROBE_MS, maxBuffer: 4 << 20 })).stdout;
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    // That it is missing is told where it is started.
    return file;
  }
}
