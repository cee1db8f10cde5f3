import { setTimeout as delay } from 'node:timers/promises';
import { findRunning, type StackHandle, stateFolder } from '../stack/handle.ts';
import { StackRunningError, startStack } from '../stack/stack.ts';
import { eventPrinter } from '../stack/terminal.ts';
import { progressPrinter } from '../toolchain/progress.ts';

/** Longest wait for the stack. A first start builds its tools, which takes minutes on a small machine. */
const PATIENCE_MS = 30 * 60_000;

export type UsedStack = {
  handle: StackHandle;
  stateDir: string;
  /** Ends the stack. Absent when the stack was already running, because then this process must not end it. */
  stop?: () => Promise<void>;
};

/** Returns the stack that runs in the state folder, or starts one. */
export async function attachOrStart(options: {
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  say: (line: string) => void;
}): Promise<UsedStack> {
  const { env, signal, say } = options;
  const stateDir = stateFolder(env);
  for (const deadline = Date.now() + PATIENCE_MS; ; ) {
    const running = findRunning(stateDir);
    if (running?.state === 'ready') {
      say(`Using the stack that runs in ${stateDir}.`);
      return { handle: running.handle, stateDir };
    }
    if (!running) {
      try {
        say(`Starting the stack in ${stateDir}.`);
        const report = progressPrinter(process.stderr);
        const stack = await startStack({ env, signal, onEvent: eventPrinter(say), report, say });
        return { handle: stack.handle, stateDir, stop: stack.stop };
      } catch (error) {
        // Another process started the stack first, so that one is used.
        if (!(error instanceof StackRunningError)) throw error;
      }
    }
    if (Date.now() > deadline) {
      throw new Error(`the stack in ${stateDir} is still not ready after ${PATIENCE_MS / 60_000} minutes`);
    }
    await delay(250, undefined, { signal });
  }
}
