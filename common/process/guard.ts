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

/**
 * Starts a guard. It does not keep this process alive, and is started anew, with everything it has to know,
 * if somebody kills it.
 *
 * @param graceMs how long the watched groups have between their stop signal and SIGKILL
 */
export function createGuard({ graceMs = 5_000 }: { graceMs?: number } = {}): Guard {
  const watched = new Map<number, StopSignal>();
  const paths = new Set<string>();
  let closed = false;
  let child: ChildProcess;

  const start = () => {
    // A session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.
    child = spawn('/bin/sh', [SCRIPT, String(Math.max(1, Math.round(graceMs / 100)))], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
    });
    child.unref();
    // A guard that was killed must not take its owner along through an unhandled EPIPE.
    child.stdin?.on('error', () => {});
    (child.stdin as unknown as { unref?: () => void })?.unref?.();
    const mine = child;
    child.on('exit', () => {
      if (closed || child !== mine) return;
      start();
      for (const [pgid, signal] of watched) void send(`watch ${signal.slice(3)}:${pgid}`);
      for (const path of paths) void send(`remove ${path}`);
    });
    child.on('error', () => {});
  };

  const send = (line: string) =>
    new Promise<void>((resolve) => {
      const stdin = child.stdin as Writable;
      // A failed write means the guard just died; its successor is told everything again.
      stdin.write(`${line}\n`, () => resolve());
    });

  start();
  return {
    async watch(pgid, signal) {
      watched.set(pgid, signal);
      await send(`watch ${signal.slice(3)}:${pgid}`);
    },
    async forget(pgid) {
      if (watched.delete(pgid)) await send(`forget ${pgid}`);
    },
    async removeOnDeath(path) {
      if (path.includes('\n'))
        throw new Error(`a path with a line break cannot be guarded: ${JSON.stringify(path)}`);
      paths.add(path);
      await send(`remove ${path}`);
    },
    async keep(path) {
      if (paths.delete(path)) await send(`keep ${path}`);
    },
    async close() {
      if (closed) return;
      closed = true;
      const gone = new Promise<void>((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) resolve();
        else child.once('exit', () => resolve());
      });
      child.ref();
      await send('quit');
      child.stdin?.end();
      await gone;
    },
  };
}
