import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./guard.sh', import.meta.url));

export type StopSignal = 'SIGTERM' | 'SIGINT';

/**
 * Ends the processes that this process started if this process dies without ending them (kill -9 included).
 * guard.sh describes how. All methods resolve when the kernel holds the message. That is enough, because the guard
 * reads the pipe to its end even after the writer is gone.
 */
export type Guard = {
  /** Guards process group `pgid`: if this process dies, the group gets `signal` to stop. */
  watch(pgid: number, signal: StopSignal): Promise<void>;
  /** Forgets a group that has ended, because its number may now belong to an unrelated process. */
  forget(pgid: number): Promise<void>;
  /** Guards `path`: it is removed if this process dies before `keep` or `close`. */
  removeOnDeath(path: string): Promise<void>;
  keep(path: string): Promise<void>;
  /** Ends the guard itself. It leaves watched processes alone, so stop them first. */
  close(): Promise<void>;
};

/** Pause between two tries to start a guard after a failed start, in ms. */
const AGAIN_MS = 1_000;

/**
 * Starts a guard. The guard does not keep this process alive. It is restarted with all its state if somebody kills
 * it, or if the machine had no process or file left for it. Until a guard runs, `watch` and `removeOnDeath` reject
 * with the cause.
 *
 * @param graceMs time in ms that the watched groups have between their stop signal and SIGKILL
 */
export function createGuard({ graceMs = 5_000 }: { graceMs?: number } = {}): Guard {
  const watched = new Map<number, StopSignal>();
  const paths = new Set<string>();
  let closed = false;
  /** The guard that runs or is being started. */
  let running: Promise<ChildProcess> | undefined;

  const start = async (): Promise<ChildProcess> => {
    // The guard gets a session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.
    const child = spawn('/bin/sh', [SCRIPT, String(Math.max(1, Math.round(graceMs / 100)))], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
    });
    child.unref();
    // If the guard is killed, an unhandled EPIPE must not end this process.
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

  /** Returns the guard, and starts it if none runs. */
  const guard = (): Promise<ChildProcess> => {
    running ??= start().catch((error: unknown) => {
      running = undefined;
      throw error;
    });
    return running;
  };

  /** Restarts the guard, and retries until it runs, while there is anything to guard. */
  const keepOne = (): void => {
    if (closed || (watched.size === 0 && paths.size === 0)) return;
    guard().catch(() => setTimeout(keepOne, AGAIN_MS).unref());
  };

  const tell = (child: ChildProcess, line: string) =>
    new Promise<void>((resolve) => {
      const stdin = child.stdin as Writable;
      // A failed write means that the guard has just died. Its successor receives everything again.
      stdin.write(`${line}\n`, () => resolve());
    });

  const send = async (line: string): Promise<void> => {
    if (!closed) await tell(await guard(), line);
  };

  /** Sends the line only to a running guard. Without one there is nothing to forget. */
  const untell = async (line: string): Promise<void> => {
    const child = await running?.catch(() => undefined);
    if (child) await tell(child, line);
  };

  guard().catch(() => {});
  return {
    async watch(pgid, signal) {
      watched.set(pgid, signal);
      try {
        await send(`watch ${signal.slice(3)}:${pgid}`);
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
        await send(`remove ${path}`);
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
