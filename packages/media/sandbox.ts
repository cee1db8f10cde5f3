import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Guard } from '@semblance/common/process/guard';
import { lowerPriority } from '@semblance/common/process/lower-priority';
import type { MediaTools } from './tools.ts';

/**
 * Shell script that waits until the guard knows the process, so that none outlives this one. It then sets the
 * limits and becomes the tool. Limits that a system lacks are skipped (macOS has none on address space). At the
 * soft CPU limit the kernel sends a signal of its own, which distinguishes it from a kill; at the hard one it sends
 * SIGKILL.
 */
const WRAPPER = `IFS= read -r go <&3 || exit 125
exec 3<&-
ulimit -c 0 2>/dev/null
ulimit -S -t "$1" || exit 126
ulimit -H -t "$(($1 + 10))" 2>/dev/null || :
ulimit -f "$2" || exit 126
ulimit -v "$3" 2>/dev/null || :
shift 3
exec "$@"`;

const STDERR_KEPT = 8_192;

export interface ChildLimits {
  readonly cpuSec: number;
  /** Largest address space, in MiB. */
  readonly memoryMib: number;
  /** Largest file that the tool may write, in MiB. */
  readonly fileMib: number;
}

export interface ToolExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Cause of an early end: killed by this process, or the CPU limit. Undefined for any other end. */
  readonly ended: 'killed' | 'cpu' | undefined;
  /** The last text that the tool wrote to standard error. */
  readonly stderr: string;
}

export interface Tool {
  readonly pid: number;
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  /** Resolves when the process and its children are gone; never rejects. */
  readonly exited: Promise<ToolExit>;
  kill(): void;
}

export interface ToolOptions extends ProgramLimits {
  readonly tools: MediaTools;
  readonly program: 'ffmpeg' | 'ffprobe';
}

export interface ProgramOptions extends ProgramLimits {
  /** Path of the program. */
  readonly file: string;
  /** As in {@link MediaTools}. */
  readonly isolate: readonly string[];
}

interface ProgramLimits {
  readonly args: readonly string[];
  readonly limits: ChildLimits;
  readonly guard: Guard;
  /** When it aborts, the process is killed. */
  readonly signal: AbortSignal;
  /** Nice value of the process. Default: that of this process. */
  readonly nice?: number | undefined;
  /** Whether its standard input is written. */
  readonly feed?: boolean;
}

/** Starts ffmpeg or ffprobe as {@link startProgram} does. */
export function startTool({ tools, program, ...options }: ToolOptions): Promise<Tool> {
  return startProgram({ ...options, file: tools[program], isolate: tools.isolate });
}

/** Starts a program in its own process group, with limits, and without a network where the kernel allows that. */
export async function startProgram(options: ProgramOptions): Promise<Tool> {
  const { file, isolate, limits, guard, signal } = options;
  signal.throwIfAborted();
  const child = spawn(
    '/bin/sh',
    [
      ...['-c', WRAPPER, 'media'],
      ...[String(limits.cpuSec), String(limits.fileMib * 2048), String(limits.memoryMib * 1024)],
      ...[...isolate, file, ...options.args],
    ],
    {
      detached: true,
      cwd: '/',
      // The tool gets nothing of this environment: no secrets, and no variables that control ffmpeg, such as
      // FFREPORT.
      env: { PATH: process.env.PATH, LC_ALL: 'C', AV_LOG_FORCE_NOCOLOR: '1', ...libraryPath() },
      stdio: [options.feed ? 'pipe' : 'ignore', 'pipe', 'pipe', 'pipe'],
    },
  );
  const pid = child.pid;
  if (pid === undefined) {
    const cause = await new Promise<unknown>((resolve) => child.once('error', resolve));
    throw new Error(`cannot start ${file}`, { cause });
  }
  // At the gate the process has a single thread, from which all others inherit the value.
  if (options.nice !== undefined) lowerPriority(pid, options.nice);
  child.on('error', () => {});
  child.stdin?.on('error', () => {});
  const stdout = child.stdout as Readable;
  stdout.on('error', () => {});
  let ended = false;
  let killed = false;
  const kill = () => {
    if (ended) return;
    killed = true;
    killGroup(pid);
  };
  const exited = exitOf(child).then(async (exit) => {
    ended = true;
    signal.removeEventListener('abort', kill);
    killGroup(pid);
    await guard.forget(pid);
    return { ...exit, ended: killed ? ('killed' as const) : overTime(exit) ? ('cpu' as const) : undefined };
  });
  try {
    await guard.watch(pid, 'SIGTERM');
  } catch (cause) {
    // The process still waits at its gate, and no guard would end it.
    kill();
    await exited;
    throw new Error(`cannot start ${file}`, { cause });
  }
  signal.addEventListener('abort', kill, { once: true });
  const gate = child.stdio[3] as Writable;
  gate.on('error', () => {});
  if (signal.aborted) kill();
  else gate.end('go\n');
  return { pid, stdin: child.stdin, stdout, exited, kill };
}

/** ffmpeg treats the signal as a request to stop, and then exits with this status. */
const STOPPED_BY_SIGNAL = 255;
const overTime = ({ code, signal }: Pick<ToolExit, 'code' | 'signal'>) =>
  signal === 'SIGXCPU' || code === STOPPED_BY_SIGNAL;

function exitOf(child: ChildProcess): Promise<Omit<ToolExit, 'ended'>> {
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT);
  });
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      // The last output may still be in the pipe.
      const done = () => resolve({ code, signal, stderr });
      if (child.stderr?.readableEnded === false) child.stderr.once('close', done);
      else done();
    });
  });
}

function libraryPath(): NodeJS.ProcessEnv {
  const { LD_LIBRARY_PATH } = process.env;
  return LD_LIBRARY_PATH ? { LD_LIBRARY_PATH } : {};
}

function killGroup(pgid: number): void {
  try {
    process.kill(-pgid, 'SIGKILL');
  } catch {
    // The group is already gone.
  }
}
