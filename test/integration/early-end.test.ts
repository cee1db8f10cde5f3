import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/** Sends SIGTERM to the process itself, as it begins to load what every service is run by. */
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

// The first process of a container goes on after a signal without a listener; any other is ended by the kernel.
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
