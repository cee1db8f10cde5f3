import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Guard } from '@semblance/common/process/guard';
import { lowerPriority } from '@semblance/common/process/lower-priority';
import { exhausted } from '@semblance/engine-api/exhausted';
import { type Isolation, pathsOf } from './isolation.ts';
import type { MediaTools } from './tools.ts';

/**
 * Shell script in place of `semblance-wall` where that is not built. It waits until the guard knows the process, so
 * that none outlives this one. It then sets the limits and becomes the tool. Limits that a system lacks are skipped
 * (macOS has none on address space). At the soft CPU limit the kernel sends a signal of its own, which distinguishes
 * it from a kill; at the hard one it sends SIGKILL.
 */
const WRAPPER = `IFS= read -r go <&3 || exit 125
exec 3<&-
ulimit -c 0 2>/dev/null
ulimit -S -t "$1" || exit 126
ulimit -H -t "$(($1 + 10))" 2>/dev/null || :
ulimit -f "$2" || exit 126
ulimit "$3" "$4" 2>/dev/null || :
shift 4
exec "$@"`;

const STDERR_KEPT = 8_192;

export interface ChildLimits {
  readonly cpuSec: number;
  /** Largest address space, in MiB. */
  readonly memoryMib: number;
  /**
   * Whether the limit is for memory that the program can write, because it reserves far more addresses than it uses,
   * as V8 does.
   */
  readonly reserves?: boolean;
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
  readonly isolation: Isolation;
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
  /** Files and folders that it may read, beside those that programs are made of. */
  readonly read?: readonly string[];
  /** Files that it may write and read; they are made if they do not exist. */
  readonly write?: readonly string[];
  /** Whether it gets an empty file in memory as descriptor 3, where there are walls. */
  readonly shared?: boolean;
}

/** Starts ffmpeg or ffprobe as {@link startProgram} does. */
export function startTool({ tools, program, ...options }: ToolOptions): Promise<Tool> {
  return startProgram({ ...options, file: tools[program], isolation: tools.isolation });
}

/** Starts a program in its own process group, with limits, and behind the walls that this machine offers. */
export async function startProgram(options: ProgramOptions): Promise<Tool> {
  const { file, guard, signal } = options;
  signal.throwIfAborted();
  for (const path of options.write ?? []) await makeFile(path);
  const [program = file, ...args] = options.isolation.wall
    ? walled(options, options.isolation.wall)
    : bare(options);
  const child = spawn(program, args, {
    detached: true,
    cwd: '/',
    // The tool gets nothing of this environment: no secrets, and no variables that control ffmpeg, such as FFREPORT.
    env: { LC_ALL: 'C', AV_LOG_FORCE_NOCOLOR: '1', ...libraryPath() },
    stdio: [options.feed ? 'pipe' : 'ignore', 'pipe', 'pipe', 'pipe'],
  });
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

/** Makes a file that a program may write behind walls, where it can make none. */
async function makeFile(path: string): Promise<void> {
  try {
    await (await open(path, 'a')).close();
  } catch (error) {
    const lack = exhausted(error);
    if (lack) throw lack;
    // That it cannot be written, such as for want of its folder, is told by the program.
  }
}

function walled(
  { file, args, limits, read = [], write = [], shared }: ProgramOptions,
  wall: readonly string[],
) {
  return [
    ...wall,
    ...['--cpu', String(limits.cpuSec), '--file', String(limits.fileMib)],
    ...[limits.reserves ? '--data' : '--space', String(limits.memoryMib)],
    ...pathsOf(file),
    ...read.flatMap((path) => ['--read', resolve(path)]),
    ...write.flatMap((path) => ['--write', resolve(path)]),
    ...(shared ? ['--shared'] : []),
    ...['--', file, ...args],
  ];
}

function bare({ file, args, limits, isolation }: ProgramOptions) {
  return [
    ...['/bin/sh', '-c', WRAPPER, 'media'],
    ...[String(limits.cpuSec), String(limits.fileMib * 2048)],
    ...[limits.reserves ? '-d' : '-v', String(limits.memoryMib * 1024)],
    ...[...isolation.unshare, file, ...args],
  ];
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
