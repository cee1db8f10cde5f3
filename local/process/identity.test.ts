/** @module-tag python */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { identify, isAlive } from './identity.ts';

/** Ends the first thread alone, by the system call `exit` (60 on x86-64, 93 on arm64). */
const PROGRAM = `
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
`;

const onLinux = process.platform === 'linux' ? it : it.skip;

// `it.runIf` would run it without the program that its tag names too.
onLinux('a process whose first thread has ended is alive until its last thread ends', async () => {
  const child = spawn('python3', ['-c', PROGRAM], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  await vi.waitFor(() => expect(readFileSync(`/proc/${pid}/stat`, 'utf8')).toMatch(/\) Z /), 20_000);
  const identity = identify(pid);
  expect(identity).toMatchObject({ pid });
  child.kill('SIGKILL');
  await vi.waitFor(() => expect(identity && isAlive(identity)).toBe(false), 20_000);
});
