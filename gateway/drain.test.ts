import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import { DirectoryStore } from '@semblance/objects/directory-store';
import { ControlDouble, TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { expect, it } from 'vitest';
import { drainTimes } from './config.ts';

it('gives live sessions as long as it serves on, and half a minute at most, unless it is told otherwise', () => {
  const of = (serve: number, live?: number) =>
    drainTimes({ SEMBLANCE_GATEWAY_DRAIN_SECONDS: serve, SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS: live });
  expect(of(0)).toEqual({ serve: 0, live: 0 });
  expect(of(12)).toEqual({ serve: 12_000, live: 12_000 });
  expect(of(90)).toEqual({ serve: 90_000, live: 30_000 });
  expect(of(5, 300)).toEqual({ serve: 5_000, live: 300_000 });
});

it('a process that is asked to end stops being ready, serves on for its time, and ends well', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-gateway-'));
  const signingKey = Buffer.alloc(32, 7);
  const control = new ControlDouble(
    new DirectoryStore({ folder, signingKey, publicUrl: 'http://gateway.test' }),
  );
  await control.start();
  const [port, healthPort] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      SEMBLANCE_GATEWAY_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${healthPort}`,
      SEMBLANCE_CONTROL_ADDRESS: `127.0.0.1:${control.port}`,
      SEMBLANCE_OBJECTS_URL: `file://${folder}`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: signingKey.toString('hex'),
      SEMBLANCE_PUBLIC_URL: 'http://gateway.test',
      // Longer than all requests of the test.
      SEMBLANCE_GATEWAY_DRAIN_SECONDS: '6',
      SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS: '0',
    },
  });
  const exited = once(child, 'exit');
  try {
    const status = async (url: string, headers = {}) =>
      (await fetch(url, { headers }).catch(() => undefined))?.status;
    const ready = () => status(`http://127.0.0.1:${healthPort}/readyz`);
    const served = () =>
      status(`http://127.0.0.1:${port}/api/v1/balance`, { authorization: `Bearer ${TEST_KEY}` });
    await expect.poll(ready, { timeout: 30_000 }).toBe(200);
    child.kill('SIGTERM');
    await expect.poll(ready, { timeout: 30_000 }).toBe(503);
    expect(await served()).toBe(200);
    expect(await exited).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
    await exited;
    await control.close();
    await rm(folder, { recursive: true, force: true });
  }
});
