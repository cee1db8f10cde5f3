import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Child {
  readonly pid: number;
  /** Returns the next line that the process prints. */
  line(): Promise<string>;
  say(line: string): void;
  /** Closes the standard input of the process and waits for its end. */
  end(): Promise<void>;
}

/** Starts a script of this folder in a separate process, which ends with its standard input. */
export function start(script: string, args: readonly string[]): Child {
  const node = (process.env.SEMBLANCE_BENCH_NODE_ARGS ?? '').split(' ').filter(Boolean);
  const child = spawn(process.execPath, [...node, join(import.meta.dirname, script), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    pid: child.pid as number,
    async line() {
      const { done, value } = await lines.next();
      if (done) throw new Error(`${script} ended`);
      return value;
    },
    say: (line) => void child.stdin.write(`${line}\n`),
    async end() {
      child.stdin.end();
      await exited;
    },
  };
}
