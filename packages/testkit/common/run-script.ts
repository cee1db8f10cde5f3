import { type ChildProcess, spawn } from 'node:child_process';

export type RunningScript = {
  child: ChildProcess;
  /** Complete standard output, available after the process has ended. */
  output: Promise<string>;
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Resolves when the process has printed this line; rejects if it ends first. */
  line(text: string): Promise<void>;
};

/**
 * Runs a module given as text in its own process, for tests that kill processes.
 * @param files limit of open files of the process. Default: that of this process
 */
export function runScript(
  code: string,
  env: NodeJS.ProcessEnv = process.env,
  { files }: { readonly files?: number } = {},
): RunningScript {
  const node = [process.execPath, '--input-type=module', '-e', code] as const;
  const limited = ['/bin/sh', '-c', `ulimit -n ${files}; exec "$@"`, 'sh', ...node] as const;
  const [program, ...args] = files === undefined ? node : limited;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  return {
    child,
    exited,
    output: exited.then(() => text),
    line: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => text.split('\n').includes(wanted) && resolve();
        child.stdout.on('data', look);
        look();
        void exited.then(() => reject(new Error(`ended before it printed ${wanted}; it printed:\n${text}`)));
      }),
  };
}
