import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const here = import.meta.dirname;

/** Runs a service with the given source of `main` and `close` as a real process. */
function start(main: string, env: NodeJS.ProcessEnv = {}, graceMs = 60_000) {
  const source = `
    import { runService } from ${JSON.stringify(join(here, 'service.ts'))};
    import { createLogger } from ${JSON.stringify(join(here, 'logging.ts'))};
    import { ConfigError } from ${JSON.stringify(join(here, 'config.ts'))};
    setInterval(() => {}, 1000);
    runService(createLogger({ service: 'test', level: 'info' }), async (signal) => { ${main} }, ${graceMs});
    console.log('READY');`;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', source], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  const ready = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
      if (output.includes('READY')) ready.resolve();
    });
  }
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  return { child, ready: ready.promise, ended, output: () => output };
}

describe('runService', () => {
  it('closes in order on SIGTERM and exits 0', async () => {
    const service = start(`return async () => { console.log('CLOSED', signal.aborted); };`);
    await service.ready;
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
    expect(service.output()).toContain('CLOSED true');
  });

  it('ends when its supervisor is gone, however it went', async () => {
    const service = start(`return async () => { console.log('CLOSED'); };`, {
      SEMBLANCE_EXIT_ON_STDIN_EOF: '1',
    });
    await service.ready;
    service.child.stdin.end();
    expect(await service.ended).toBe(0);
    expect(service.output()).toContain('CLOSED');
  });

  it('lets a start that is asked to end undo what it began', async () => {
    const service = start(`
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await new Promise((resolve) => setTimeout(resolve, 100));
      console.log('UNDONE');
      throw signal.reason;`);
    await service.ready;
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
    expect(service.output()).toContain('UNDONE');
  });

  it('logs what nobody caught and exits 1', async () => {
    const service = start(`setTimeout(() => { throw new Error('boom'); }, 50); return async () => {};`);
    expect(await service.ended).toBe(1);
    expect(service.output()).toMatch(/uncaught exception: boom/);
  });

  it('prints unusable settings plainly and exits 1', async () => {
    const service = start(`throw new ConfigError('The environment is not usable: SEMBLANCE_X');`);
    expect(await service.ended).toBe(1);
    expect(service.output()).toContain('The environment is not usable: SEMBLANCE_X');
  });

  it('does not hang when closing does', async () => {
    const service = start(`return () => new Promise(() => {});`, {}, 300);
    await service.ready;
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(1);
    expect(service.output()).toContain('did not end within the grace period');
  });
});
