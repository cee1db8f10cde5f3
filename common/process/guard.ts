import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./guard.sh', import.meta.url));

export type StopSignal = 'SIGTERM' | 'SIGINT';

/**
 * Ends what this process started if this process dies without doing so (kill -9 included).
 * See guard.sh for how. All methods resolve once the kernel holds the message, which is enough:
 * the guard reads what is in the pipe even after its writer is gone.
 */
export type Guard = {
  /** Process group `pgid` dies with us; `signal` asks it to stop. */
  watch(pgid: number, signal: StopSignal): Promise<void>;
  /** That group has ended: its number may now belong to a stranger. */
  forget(pgid: number): Promise<void>;
  /** `path` is removed if we die before `keep` or `close`. */
  removeOnDeath(path: string): Promise<void>;
  keep(path: string): Promise<void>;
  /** Ends the guard itself. Whatever is still watched is left alone, so stop it first. */
  close(): Promise<void>;
};

/** Between two tries to start a guard anew where none can be started. */
const AGAIN_MS = 1_000;

/**
 * Starts a guard. It does not keep this process alive, and is started anew, with everything it has to know,
 * if somebody kills it, and if the machine had no process or file left for it. Until there is one, `watch` and
 * `removeOnDeath` reject with what stands in its way.
 *
 * @param graceMs how long the watched groups have between their stop signal and SIGKILL
 */
export function createGuard({ graceMs = 5_000 }: { graceMs?: number } = {}): Guard {
  const watched = new Map<number, StopSignal>();
  const paths = new Set<string>();
  let closed = false;
  /** Of the guard that runs or is being started. */
  let running: Promise<ChildProcess> | undefined;

  const start = async (): Promise<ChildProcess> => {
    // A session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.
    const child = spawn('/bin/sh', [SCRIPT, String(Math.max(1, Math.round(graceMs / 100)))], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
    });
    child.unref();
    // A guard that was killed must not take its owner along through an unhandled EPIPE.
    child.stdin?.on('error', () => {});
    (child.stdin as unknown as { unref?: () => void })?.unref?.();
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.on('error', reject);
    });
    child.on('exit', () => {
      running = undefined;
      keepOne();
    });
    for (const [pgid, signal] of watched) void tell(child, `watch ${signal.slice(3)}:${pgid}`);
    for (const path of paths) void tell(child, `remove ${path}`);
    return child;
  };

  /** The guard; started now where none runs. */
  const guard = (): Promise<ChildProcess> => {
    running ??= start().catch((error: unknown) => {
      running = undefined;
      throw error;
    });
    return running;
  };

  /** Sees to it that there is one again, whenever that may be, as long as there is something to guard. */
  const keepOne = (): void => {
    if (closed || (watched.size === 0 && paths.size === 0)) return;
    guard().catch(() => setTimeout(keepOne, AGAIN_MS).unref());
  };

  const tell = (child: ChildProcess, line: string) =>
    new Promise<void>((resolve) => {
      const stdin = child.stdin as Writable;
      // A failed write means the guard just died; its successor is told everything again.
      stdin.write(`${line}\n`, () => resolve());
    });

  const told = async (line: string): Promise<void> => {
    if (!closed) await tell(await guard(), line);
  };

  /** A guard that does not run, and could not be started, has nothing to forget. */
  const untell = async (line: string): Promise<void> => {
    const child = await running?.catch(() => undefined);
    if (child) await tell(child, line);
  };

  guard().catch(() => {});
  return {
    async watch(pgid, signal) {
      watched.set(pgid, signal);
      try {
        await told(`watch ${signal.slice(3)}:${pgid}`);
      } catch (error) {
        watched.delete(pgid);
        throw error;
      }
    },
    async forget(pgid) {
      if (watched.delete(pgid)) await untell(`forget ${pgid}`);
    },
    async removeOnDeath(path) {
      if (path.includes('\n'))
        throw new Error(`a path with a line break cannot be guarded: ${JSON.stringify(path)}`);
      paths.add(path);
      try {
        await told(`remove ${path}`);
      } catch (error) {
        paths.delete(path);
        throw error;
      }
    },
    async keep(path) {
      if (paths.delete(path)) await untell(`keep ${path}`);
    },
    async close() {
      if (closed) return;
      closed = true;
      const child = await running?.catch(() => undefined);
      if (!child) return;
      const gone = new Promise<void>((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) resolve();
        else child.once('exit', () => resolve());
      });
      child.ref();
      await tell(child, 'quit');
      child.stdin?.end();
      await gone;
    },
  };
}
