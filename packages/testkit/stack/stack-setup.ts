import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGuard } from '@semblance/common/process/guard';
import { liveOffered } from './live-client.ts';
import { stackAt } from './stack.ts';
import { type StackProcess, startStackProcess } from './stack-process.ts';

/**
 * Vitest's global setup for suites that need the whole system. One stack serves the run: it starts when a suite
 * first asks, and ends with the run. Workers ask on a Unix socket for the path of its `stack.json`; the answer is
 * `{file}` or `{error}`.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-suites-'));
  const guard = createGuard();
  await guard.removeOnDeath(folder);
  const socket = join(folder, 'stack.sock');
  let stack: Promise<StackProcess> | undefined;
  const server = createServer((_request, response) => {
    stack ??= startStackProcess().then(offeringAll);
    stack.then(
      ({ file }) => response.end(JSON.stringify({ file })),
      // There is no second try, because every suite would wait as long as the first.
      (error: unknown) => response.end(JSON.stringify({ error: String(error) })),
    );
  });
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(socket, resolve);
  });
  process.env.SEMBLANCE_TEST_STACK = socket;
  return async () => {
    delete process.env.SEMBLANCE_TEST_STACK;
    server.close();
    server.closeAllConnections();
    await stack?.then(
      (running) => running.close(),
      () => {},
    );
    await rm(folder, { recursive: true, force: true });
    await guard.close();
  };
}

/** Waits until the stack offers live sessions: their networks are warm some seconds after the start. */
async function offeringAll(running: StackProcess): Promise<StackProcess> {
  try {
    await liveOffered(stackAt(running.file));
    return running;
  } catch (error) {
    await running.close();
    throw error;
  }
}
