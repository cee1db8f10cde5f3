import { fork } from 'node:child_process';
import { createClientLog } from '@semblance/common/client-log';
import type { Logger } from '@semblance/common/logging';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { lowerPriority } from '@semblance/common/process/lower-priority';
import { ContentCheckError } from '../check.ts';
import type { FromLooker, Looked, LookerAnswer, ToLooker } from './protocol.ts';

/** Environment variables of the agent that the process gets. Credentials are not among them. */
const PASSED_ON = /^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH|SEMBLANCE_MEDIA_ISOLATION)$/;

export interface LookerProcessOptions {
  /** Name of the check, in messages. */
  readonly name: string;
  /** Module of the process, which calls `serveLooker`. */
  readonly main: URL;
  /** Options of its work. */
  readonly options: object;
  readonly logger: Logger;
  /** Time without progress after which a look and its process are ended, in ms. */
  readonly timeoutMs: number;
  /** Nice value of the process and of its decoders. Default: that of the agent. */
  readonly nice?: number | undefined;
}

/** Process that looks at several files at once. */
export interface LookerProcess {
  /** Whether the process accepts looks. */
  readonly alive: boolean;
  /**
   * @throws LookerEndedError when the process ended, even if another look was the cause; ContentCheckError when
   * this look made no progress; the signal's reason
   */
  look(looked: Looked, signal: AbortSignal): Promise<LookerAnswer>;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  close(): Promise<void>;
}

/** The process ended during the look. It is unknown which of its looks was the cause. */
export class LookerEndedError extends ContentCheckError {}

interface Waiting {
  readonly answered: (answer: LookerAnswer) => void;
  readonly goesOn: () => void;
  readonly failed: (reason: Error) => void;
}

export function startLooker(of: LookerProcessOptions): LookerProcess {
  const { name, main, options, logger, timeoutMs, nice } = of;
  const waiting = new Map<number, Waiting>();
  const { promise: ended, resolve: onEnded } = Promise.withResolvers<void>();
  let alive = true;
  let lastId = 0;
  const child = fork(main, [JSON.stringify(options)], {
    // The agent's own flags may belong to a test runner or a debugger.
    execArgv: [...NODE_FLAGS],
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name))),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  if (nice !== undefined && child.pid !== undefined) lowerPriority(child.pid, nice);
  const log = createClientLog(logger);
  child.stderr?.on('data', (data: Buffer) => {
    log.warn('err', { line: data.toString().slice(0, 2_000) }, 'output of the content check');
  });
  child.on('message', (message: FromLooker) => {
    if (message.type === 'looking') waiting.get(message.id)?.goesOn();
    else waiting.get(message.id)?.answered(message);
  });
  const end = (reason: string) => {
    alive = false;
    for (const { failed } of waiting.values()) failed(new LookerEndedError(reason));
    onEnded();
  };
  const kill = () => {
    alive = false;
    child.kill('SIGKILL');
  };
  child.once('exit', (code, signal) => end(`the process of the check ${name} ended (${signal ?? code})`));
  child.on('error', (error) => {
    kill();
    // A process that never started reports no exit.
    if (child.pid === undefined) end(`the process of the check ${name} cannot be started: ${error.message}`);
  });
  const say = (message: ToLooker) => child.connected && child.send(message, () => {});

  return {
    get alive() {
      return alive;
    },
    ended,
    async look({ phase, files }, signal) {
      signal.throwIfAborted();
      if (!alive) throw new LookerEndedError(`the process of the check ${name} has ended`);
      const id = ++lastId;
      return new Promise<LookerAnswer>((resolve, reject) => {
        const onAbort = () => {
          say({ type: 'cancel', id });
          reject(signal.reason);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        // The timer runs on after an abort, because a stuck process would also block the next look.
        const timer = setTimeout(() => {
          over();
          reject(new ContentCheckError(`the check ${name} came no further within ${timeoutMs / 1000} s`));
          kill();
        }, timeoutMs);
        const over = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', onAbort);
          waiting.delete(id);
        };
        waiting.set(id, {
          answered(answer) {
            over();
            resolve(answer);
          },
          goesOn: () => timer.refresh(),
          failed(reason) {
            over();
            reject(reason);
          },
        });
        say({ type: 'look', id, phase, files });
      });
    },
    async close() {
      alive = false;
      const timer = setTimeout(() => child.kill('SIGKILL'), 2_000);
      if (child.connected) child.disconnect();
      await ended;
      clearTimeout(timer);
    },
  };
}
