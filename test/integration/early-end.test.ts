import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/** Module that makes the process send itself SIGTERM as soon as it begins to load the common service module. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === '@semblance/common/service') process.kill(process.pid, 'SIGTERM');
      return next(specifier, context);
    },
  });`)}`;

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-early-end-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

// Without a listener, a signal has no effect on the first process of a container, and the kernel ends any other
// process.
test.each(['control-plane', 'gateway', 'gpu-agent', 'operator'])(
  '%s listens for SIGTERM before its modules are loaded',
  async (service) => {
    const child = spawn(process.execPath, ['--import', HOOK, join(ROOT, service, 'main.ts')], {
      cwd: dir,
      env: { PATH: process.env.PATH, HOME: dir },
      stdio: 'ignore',
    });
    const [, signal] = await once(child, 'exit');
    expect(signal).toBeNull();
  },
  60_000,
);
