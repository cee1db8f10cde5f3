import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Peer {
  readonly origin: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts a server of this folder in a process of its own, as ours are; it prints its port first. */
export async function startPeer(script: string, args: readonly string[]): Promise<Peer> {
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], {
    // Its standard input ends with us, and it with that.
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
