import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cpuSecondsOf } from '../http/process-use.ts';
import { findCpuGroups } from './cpu-share.ts';

test('without the controller it says so, and where it looked', () => {
  const root = mkdtempSync(join(tmpdir(), 'semblance-cgroup-'));
  try {
    const found = findCpuGroups(root);
    expect(found).toMatchObject({ available: false });
    expect(JSON.stringify(found)).toContain(root);
    // This controller is an empty folder, so it cannot tell how often a group was throttled.
    mkdirSync(join(root, 'cpu'));
    expect(findCpuGroups(root)).toMatchObject({ available: false, why: expect.stringContaining('no group') });
  } finally {
    rmSync(root, { recursive: true });
  }
});

const here = findCpuGroups();

test.skipIf(!here.available)('a group holds what it contains to its share', async () => {
  if (!here.available) return;
  const group = here.make(`semblance-bench-test-${process.pid}`);
  group.limit(0.2);
  const script = 'echo $$ > "$0"; exec "$1" -e "for (;;);"';
  const child = spawn('sh', ['-c', script, group.procs, process.execPath], { stdio: 'ignore' });
  try {
    // However slow the machine is, the process had at most its share of every period that began.
    await expect.poll(() => group.throttled(), { timeout: 60_000 }).toBeGreaterThanOrEqual(10);
    const [before, began] = [cpuSecondsOf(child.pid ?? 0) ?? Number.NaN, performance.now()];
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const used = (cpuSecondsOf(child.pid ?? 0) ?? Number.NaN) - before;
    const seconds = (performance.now() - began) / 1_000;
    expect(used).toBeLessThanOrEqual(0.2 * (seconds + 0.2) + 0.02);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
    group.remove();
  }
});
