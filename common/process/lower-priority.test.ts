import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { readdir } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { getPriority } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { lowerPriority } from './lower-priority.ts';

let child: ChildProcess | undefined;
afterEach(() => {
  child?.kill('SIGKILL');
  child = undefined;
});

/** Starts a process with several threads and returns their ids. */
async function running(): Promise<{ pid: number; threads: number[] }> {
  const started = spawn(process.execPath, ['-e', 'process.stdout.write("up"); process.stdin.resume();']);
  child = started;
  await once(started.stdout, 'data');
  const pid = started.pid as number;
  const threads = (await readdir(`/proc/${pid}/task`)).map(Number);
  expect(threads.length).toBeGreaterThan(1);
  return { pid, threads };
}

/** Returns the process id of a process that has ended. */
async function ended(): Promise<number> {
  const gone = spawn(process.execPath, ['-e', '']);
  await once(gone, 'exit');
  return gone.pid as number;
}

describe.runIf(process.platform === 'linux')('all threads of a process are lowered', () => {
  it('those that were there before it', async () => {
    const { pid, threads } = await running();
    lowerPriority(pid, 7);
    expect(threads.map((thread) => getPriority(thread))).toEqual(threads.map(() => 7));
  });

  it('though one ends between being listed and its turn', async () => {
    const [{ pid, threads }, gone] = [await running(), await ended()];
    const listed = vi.spyOn(fs, 'readdirSync').mockReturnValue([gone, ...threads].map(String) as never);
    syncBuiltinESMExports();
    try {
      lowerPriority(pid, 7);
      expect(listed).toHaveBeenCalledWith(`/proc/${pid}/task`);
    } finally {
      listed.mockRestore();
      syncBuiltinESMExports();
    }
    expect(threads.map((thread) => getPriority(thread))).toEqual(threads.map(() => 7));
  });
});

it('minds nothing of a process that is gone', async () => {
  const gone = await ended();
  expect(() => lowerPriority(gone, 7)).not.toThrow();
});
