import { type ChildProcess, fork } from 'node:child_process';
import type { Logger } from '#common/logging.ts';
import { RenderError } from '../../engines/engine.ts';
import { ALLOWED, type CheckSubject, type ContentCheck, ContentCheckError } from '../check.ts';
import { listFile } from '../list-file.ts';
import { parseEntry } from './entries.ts';
import type { LookerOptions } from './looker.ts';
import type { FromLooker, ToLooker } from './protocol.ts';

/** Variables the process is given of the agent's environment. Credentials are not among them. */
const PASSED_ON = /^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH)$/;

export interface HashListOptions extends LookerOptions {
  readonly logger: Logger;
  /** A look that takes longer is given up, and the process with it. */
  readonly timeoutMs?: number;
}

interface Waiting {
  readonly answered: (answer: FromLooker) => void;
  readonly failed: (reason: Error) => void;
}

/** Refuses pictures, and videos with frames, that are on a list of hashes, copies of them included. */
export function hashList(options: HashListOptions): ContentCheck {
  const { list, distance, logger, timeoutMs = 600_000 } = options;
  const waiting = new Map<number, Waiting>();
  let child: ChildProcess | undefined;
  let lastId = 0;

  function running(): ChildProcess {
    if (child) return child;
    const started = fork(new URL('./looker-main.ts', import.meta.url), [JSON.stringify({ list, distance })], {
      // Ours may belong to a test runner or a debugger.
      execArgv: [],
      env: Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name))),
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    child = started;
    started.stderr?.on('data', (data: Buffer) => {
      logger.warn({ line: data.toString().slice(0, 2_000) }, 'output of the content check');
    });
    started.on('message', (answer: FromLooker) => waiting.get(answer.id)?.answered(answer));
    const end = (reason: string) => {
      if (child !== started) return;
      child = undefined;
      for (const { failed } of waiting.values()) failed(new ContentCheckError(reason));
    };
    started.once('error', (error) => end(`the process of the hash list failed: ${error.message}`));
    started.once('exit', (code, signal) => end(`the process of the hash list ended (${signal ?? code})`));
    return started;
  }

  async function look(subject: CheckSubject, signal: AbortSignal): Promise<FromLooker> {
    signal.throwIfAborted();
    const id = ++lastId;
    const asked = running();
    const say = (message: ToLooker) => asked.connected && asked.send(message, () => {});
    let timer: NodeJS.Timeout | undefined;
    let onAbort = () => {};
    try {
      return await new Promise<FromLooker>((resolve, reject) => {
        onAbort = () => {
          say({ type: 'cancel', id });
          reject(signal.reason);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.set(id, { answered: resolve, failed: reject });
        timer = setTimeout(() => {
          reject(new ContentCheckError(`no answer of the hash list within ${timeoutMs / 1000} s`));
          asked.kill('SIGKILL');
        }, timeoutMs);
        say({ type: 'look', id, files: subject.files });
      });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      waiting.delete(id);
    }
  }

  return {
    name: 'hash-list',
    about: `pictures and a frame of each second of video, against hashes of a list (PDQ within ${distance} bits, SHA-256)`,
    async assertUsable() {
      await listFile(list, parseEntry)();
    },
    async check(subject, signal) {
      const { found, refused, failed } = await look(subject, signal);
      if (refused) throw new RenderError(refused.code, refused.message);
      if (failed !== undefined) throw new ContentCheckError(failed);
      if (found === undefined) return ALLOWED;
      const what = subject.phase === 'output' ? 'The result' : `The input ${found}`;
      return { allowed: false, reason: `${what} is not allowed here.` };
    },
    async close() {
      const ending = child;
      if (!ending) return;
      await new Promise<void>((resolve) => {
        ending.once('exit', () => resolve());
        const timer = setTimeout(() => ending.kill('SIGKILL'), 2_000);
        ending.once('exit', () => clearTimeout(timer));
        if (ending.connected) ending.disconnect();
      });
    },
  };
}
