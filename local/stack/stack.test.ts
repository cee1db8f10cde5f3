import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type RunningScript, runScript } from '@semblance/testkit/common/run-script';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { identify } from '../process/identity.ts';
import { freePort } from '../process/ports.ts';
import { findRunning, lockFile, type StackHandle, writeHandle } from './handle.ts';
import { reachable, StackSettingsError, stackSettings } from './settings.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'semblance-local-'));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

describe('stackSettings', () => {
  it('chooses ports and secrets once and keeps them, readable by their owner alone', async () => {
    const env = { SEMBLANCE_STATE_DIR: stateDir };
    const first = await stackSettings(env);
    expect(await stackSettings(env)).toEqual(first);
    expect(first.publicUrl).toBe(`http://127.0.0.1:${first.ports.gateway}`);
    expect(first.objectsUrl).toBe(pathToFileURL(join(stateDir, 'objects')).href);
    expect(first.signingKey).toMatch(/^[0-9a-f]{64}$/);
    expect(statSync(join(stateDir, 'secrets.json')).mode & 0o777).toBe(0o600);
    const other = mkdtempSync(join(tmpdir(), 'semblance-local-'));
    const second = await stackSettings({ SEMBLANCE_STATE_DIR: other });
    expect(second.adminToken).not.toBe(first.adminToken);
    rmSync(other, { recursive: true });
  });

  it('listens where it is told to, and tells clients the way they see it', async () => {
    const port = await freePort();
    const settings = await stackSettings({
      SEMBLANCE_STATE_DIR: stateDir,
      SEMBLANCE_GATEWAY_LISTEN: `0.0.0.0:${port}`,
      SEMBLANCE_PUBLIC_URL: 'https://swap.example.com',
    });
    expect(settings.listen.gateway).toBe(`0.0.0.0:${port}`);
    expect(settings.publicUrl).toBe('https://swap.example.com');
    expect(settings.internalUrl).toBe(`http://127.0.0.1:${port}`);
    expect(reachable('[::]:80')).toBe('127.0.0.1:80');
    expect(reachable('[::1]:80')).toBe('[::1]:80');
    expect(reachable('example.com:80')).toBe('example.com:80');
  });

  it('refuses an address that is taken or none, by the name of its variable', async () => {
    const server = createServer();
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    const env = { SEMBLANCE_STATE_DIR: stateDir, SEMBLANCE_GATEWAY_LISTEN: `127.0.0.1:${port}` };
    await expect(stackSettings(env)).rejects.toThrow(/SEMBLANCE_GATEWAY_LISTEN is .* something listens/);
    await new Promise((resolve) => server.close(resolve));
    for (const value of ['8080', 'localhost:http', 'localhost:0', 'localhost:70000']) {
      const wrong = stackSettings({ SEMBLANCE_STATE_DIR: stateDir, SEMBLANCE_AGENT_LISTEN: value });
      await expect(wrong).rejects.toThrow(StackSettingsError);
    }
  });
});

describe('findRunning', () => {
  it('takes no handle of a dead stack for a live one', async () => {
    expect(findRunning(stateDir)).toBeUndefined();
    await writeHandle(stateDir, { base_url: 'x' } as StackHandle);
    expect(findRunning(stateDir)).toBeUndefined();
    expect(existsSync(lockFile(stateDir))).toBe(false);
    const holder = runScript(`
      import { tryLock } from ${JSON.stringify(new URL('../process/lock.ts', import.meta.url).href)};
      globalThis.held = tryLock(${JSON.stringify(lockFile(stateDir))});
      console.log('held');
      setInterval(() => {}, 1000);
    `);
    await holder.line('held');
    expect(findRunning(stateDir)).toEqual({ state: 'ready', handle: { base_url: 'x' } });
    rmSync(join(stateDir, 'stack.json'));
    expect(findRunning(stateDir)).toEqual({ state: 'starting', pid: holder.child.pid });
    holder.child.kill('SIGKILL');
    await holder.exited;
    expect(findRunning(stateDir)).toBeUndefined();
  });
});

describe('npm start', () => {
  const scripts: RunningScript[] = [];
  afterEach(async () => {
    // This also runs when a test failed half-way; the script's guard then ends the rest.
    for (const script of scripts.splice(0)) {
      script.child.kill('SIGKILL');
      await script.exited;
    }
  });

  /** Starts the stack as in a terminal, without the variables that this test run sets. */
  const start = () => {
    const kept = Object.entries(process.env).filter(
      ([name]) => !/^(VITEST|SEMBLANCE_|KUBECONFIG)/.test(name),
    );
    const script = runScript(
      `await import(${JSON.stringify(new URL('../start.ts', import.meta.url).href)});`,
      {
        ...Object.fromEntries(kept),
        SEMBLANCE_CACHE_DIR: process.env.SEMBLANCE_CACHE_DIR,
        SEMBLANCE_STATE_DIR: stateDir,
      },
    );
    scripts.push(script);
    return script;
  };

  it('refuses a second stack in one folder, and killed with kill -9 takes everything with it', async () => {
    const first = start();
    const file = join(stateDir, 'stack.json');
    await vi.waitFor(() => expect(existsSync(file)).toBe(true), { timeout: 180_000, interval: 100 });
    const { services } = JSON.parse(readFileSync(file, 'utf8')) as StackHandle;
    const pids = Object.values(services);
    expect(pids).toHaveLength(8);
    expect(statSync(file).mode & 0o777).toBe(0o600);

    const second = start();
    expect(await second.exited).toMatchObject({ code: 1 });
    for (const pid of pids) expect(identify(pid)).toBeDefined();

    first.child.kill('SIGKILL');
    await vi.waitFor(() => expect(pids.filter((pid) => identify(pid))).toEqual([]), {
      timeout: 60_000,
      interval: 100,
    });
    await vi.waitFor(() => expect(existsSync(file)).toBe(false), 20_000);
    expect(findRunning(stateDir)).toBeUndefined();
  }, 300_000);

  it('that is ended while it starts leaves nothing', async () => {
    const script = start();
    const children = join(stateDir, 'children.json');
    await vi.waitFor(() => expect(existsSync(children)).toBe(true), { timeout: 60_000, interval: 20 });
    script.child.kill('SIGINT');
    expect(await script.exited).toEqual({ code: 0, signal: null });
    expect(await script.output).toContain('Stopped before it was up; nothing is left running.');
    for (const { pid } of JSON.parse(readFileSync(children, 'utf8')) as { pid: number }[]) {
      expect(identify(pid)).toBeUndefined();
    }
  }, 150_000);
});
