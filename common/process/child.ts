import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import type { Guard, StopSignal } from './guard.ts';

/**
 * Shell command that waits for a line on descriptor 3 and only then becomes the child's command. If the parent dies
 * before the guard watches the process, the descriptor closes and the command never runs. So the process is guarded
 * at every moment.
 */
const GATE = 'IFS= read -r go <&3 || exit 125; exec 3<&-; exec "$@"';

export type Launch = {
  /** Absolute path of an executable. */
  command: string;
  args: string[];
  /** The complete environment, not an addition to the parent's. Default: the parent's. */
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Account of the process, where root starts it. Default: that of the parent. */
  user?: { readonly uid: number; readonly gid: number } | undefined;
};

export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type GuardedChild = {
  readonly pid: number;
  /** Resolves when the process has ended; never rejects. */
  readonly exited: Promise<Exit>;
  /** Sends the stop signal, then SIGKILL after `graceMs`. Resolves when the whole group is gone. */
  stop(graceMs: number): Promise<Exit>;
};

/**
 * Starts a process in a group of its own that dies with this process. The child appends its output to `logFile`
 * itself, so its last output is on disk even if this process dies first.
 */
export async function spawnGuarded(options: {
  launch: Launch;
  guard: Guard;
  logFile: string;
  stopSignal: StopSignal;
}): Promise<GuardedChild> {
  const { launch, guard, logFile, stopSignal } = options;
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, 'a', 0o600);
  let child: ChildProcess;
  try {
    child = spawn('/bin/sh', ['-c', GATE, 'gate', launch.command, ...launch.args], {
      detached: true,
      stdio: ['ignore', log, log, 'pipe'],
      ...(launch.env ? { env: launch.env } : {}),
      ...(launch.cwd ? { cwd: launch.cwd } : {}),
      ...launch.user,
    });
  } finally {
    closeSync(log);
  }
  const pid = child.pid;
  if (pid === undefined) {
    // Only a missing working folder or a lack of processes leads here. Node reports which.
    const cause = await new Promise<unknown>((resolve) => child.once('error', resolve));
    throw new Error(`cannot start ${launch.command}`, { cause });
  }
  child.on('error', () => {});
  let ended = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      ended = true;
      resolve({ code, signal });
    });
  }).then(async (exit) => {
    // Processes that the child started belong to its group and must not outlive it.
    signalGroup(pid, 'SIGKILL');
    await guard.forget(pid);
    return exit;
  });
  try {
    await guard.watch(pid, stopSignal);
  } catch (cause) {
    // The process still waits at the gate, and nothing guards it.
    signalGroup(pid, 'SIGKILL');
    await exited;
    throw new Error(`cannot start ${launch.command}`, { cause });
  }
  const gate = child.stdio[3] as Writable;
  gate.on('error', () => {});
  gate.end('go\n');

  return {
    pid,
    exited,
    async stop(graceMs) {
      if (!ended) signalGroup(pid, stopSignal);
      const timer = setTimeout(() => {
        if (!ended) signalGroup(pid, 'SIGKILL');
      }, graceMs);
      try {
        return await exited;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/**
 * Signals a process group. Ignores a group that is already gone (macOS reports EPERM while only a zombie is left).
 */
export function signalGroup(pgid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pgid, signal);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
  }
}
