import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Peer {
  readonly origin: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * Starts a server script of this folder in a separate process, like our services. The script prints its port first.
 */
export async function startPeer(script: string, args: readonly string[]): Promise<Peer> {
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], {
    // The standard input closes when this process ends, and that ends the child.
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const exited = once(child, 'exit');
  const port = await Promise.race([
    once(createInterface(child.stdout), 'line').then(([line]) => Number(line)),
    exited.then(() => Promise.reject(new Error(`${script} ended at start`))),
  ]);
  return {
    origin: `http://127.0.0.1:${port}`,
    pid: child.pid as number,
    async stop() {
      child.stdin.end();
      await exited;
    },
  };
}
