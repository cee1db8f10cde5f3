import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';

export interface OperatorProcess {
  readonly identity: string;
  readonly pid: number;
  /** Resolves when `/readyz` answers: the caches are filled and there is a leader. */
  ready(): Promise<void>;
  /** Resolves when the process has ended. */
  kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/** Starts operators as separate processes, with a folder as the object store. `close` ends all of them. */
export async function createOperatorProcesses(of: { kubeconfigPath: string; namespace: string }) {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-operator-'));
  const running = new Map<ChildProcess, Promise<unknown>>();

  async function start(
    identity: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<OperatorProcess> {
    const port = await freePort();
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, '..', '..', '..', 'operator', 'main.ts')],
      {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: {
          ...process.env,
          KUBECONFIG: of.kubeconfigPath,
          SEMBLANCE_NAMESPACE: of.namespace,
          SEMBLANCE_OBJECTS_URL: `file://${folder}`,
          SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(32),
          SEMBLANCE_PUBLIC_URL: 'http://127.0.0.1:1',
          SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${port}`,
          SEMBLANCE_OPERATOR_IDENTITY: identity,
          SEMBLANCE_LOG_LEVEL: 'error',
          ...more,
        },
      },
    );
    const exited = once(child, 'exit').then(() => running.delete(child));
    running.set(child, exited);
    return {
      identity,
      pid: child.pid ?? 0,
      async ready() {
        for (;;) {
          const end = child.exitCode ?? child.signalCode;
          if (end !== null) throw new Error(`the operator ended with ${end}`);
          const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
          if (answer?.ok) return;
          await new Promise((resolve) => setTimeout(resolve, 25));
        }
      },
      async kill(signal) {
        child.kill(signal);
        await exited;
      },
    };
  }

  return {
    start,
    async close(): Promise<void> {
      for (const child of running.keys()) child.kill('SIGKILL');
      await Promise.all(running.values());
      await rm(folder, { recursive: true, force: true });
    },
  };
}
