import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { expect, it } from 'vitest';
import { lowerPriority } from './lower-priority.ts';

it.runIf(process.platform === 'linux')(
  'lowers all threads of a process, those that were there before it',
  async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdout.write("up"); process.stdin.resume();']);
    try {
      await once(child.stdout, 'data');
      const threads = (await readdir(`/proc/${child.pid}/task`)).map(Number);
      expect(threads.length).toBeGreaterThan(1);
      lowerPriority(child.pid as number, 7);
      expect(threads.map((thread) => getPriority(thread))).toEqual(threads.map(() => 7));
    } finally {
      child.kill('SIGKILL');
    }
  },
);

it('minds nothing of a process that is gone', async () => {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  expect(() => lowerPriority(child.pid as number, 7)).not.toThrow();
});
