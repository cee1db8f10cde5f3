import { spawn } from 'node:child_process';

export type RunOptions = {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  input?: string;
  /** Receives each line of output as it comes. Without it the output is only collected. */
  onLine?: (line: string) => void;
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
  /** Signal that ends the program at its time limit or when `signal` aborts. Default SIGTERM. */
  killSignal?: NodeJS.Signals;
};

export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly code = 'command_failed';
  readonly output: string;
  constructor(message: string, output: string) {
    super(message);
    this.output = output;
  }
}

/**
 * Runs a program to its end and returns its standard output. @throws CommandError with the last lines of its output
 */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { env = process.env, cwd, input, onLine, timeoutMs, signal, killSignal } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env,
      ...(cwd ? { cwd } : {}),
      ...(timeoutMs ? { timeout: timeoutMs } : {}),
      ...(signal ? { signal } : {}),
      ...(killSignal ? { killSignal } : {}),
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    let stdout = '';
    let all = '';
    let rest = '';
    const take = (text: string) => {
      all += text;
      if (!onLine) return;
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) onLine(line);
    };
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      take(text);
    });
    child.stderr?.setEncoding('utf8').on('data', take);
    // A program that ends without reading all input reports the cause itself.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    child.once('error', (cause) => {
      // If the program runs, wait for its end, because its files are free only then.
      if (child.pid === undefined)
        reject(new CommandError(`${command} cannot be run: ${cause.message}`, all));
    });
    child.once('close', (code, killedBy) => {
      if (signal?.aborted) return reject(signal.reason);
      if (code === 0) return resolve(stdout);
      const how = killedBy ? `was killed by ${killedBy}` : `ended with status ${code}`;
      const tail = all.trimEnd().split('\n').slice(-25).join('\n');
      reject(new CommandError(`${[command, ...args].join(' ').slice(0, 300)} ${how}:\n${tail}`, all));
    });
  });
}

/** Runs a program and tells whether it ended with status 0. */
export async function succeeds(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<boolean> {
  return run(command, args, options).then(
    () => true,
    () => false,
  );
}
