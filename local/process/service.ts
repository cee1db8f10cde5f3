import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Exit, GuardedChild, Launch } from '@semblance/common/process/child';
import type { StopSignal } from '@semblance/common/process/guard';

/** Describes one process of the stack: how it is started, checked and ended. */
export type ServiceSpec = {
  name: string;
  /** Names of the services that must be ready before this one starts. */
  after?: string[];
  /** Prepares what the process needs and returns how to run it. Called before every start and restart. */
  launch(signal: AbortSignal): Promise<Launch>;
  /**
   * Checks once whether the process serves, and throws the reason if not. Called every 20 to 250 ms until it
   * resolves.
   */
  probe(signal: AbortSignal): Promise<void>;
  /** Called each time the service becomes ready, before its dependents start. Must be idempotent. */
  whenReady?(signal: AbortSignal): Promise<void>;
  stopSignal: StopSignal;
  /** Time between the stop signal and SIGKILL, in ms. */
  graceMs: number;
  /** Longest time from a start until the service is ready, in ms. */
  readyWithinMs: number;
};

export class ServiceStartError extends Error {
  override name = 'ServiceStartError';
  readonly code = 'service_start_failed';
  readonly retryable = true;
  readonly service: string;
  readonly logFile: string;
  /** What happened, in a few words; the message adds the end of the log. */
  readonly brief: string;
  constructor(service: string, why: string, logFile: string, cause?: unknown) {
    const tail = tailOf(logFile, 15);
    super(`${service} ${why}${tail ? `; the end of ${logFile}:\n${tail}` : ` (nothing in ${logFile})`}`, {
      cause,
    });
    this.service = service;
    this.brief = why;
    this.logFile = logFile;
  }
}

/** Waits until the service is ready. Throws `ServiceStartError` when the process ends first or time is up. */
export async function untilReady(options: {
  spec: ServiceSpec;
  child: GuardedChild;
  logFile: string;
  signal: AbortSignal;
}): Promise<void> {
  const { spec, child, logFile, signal } = options;
  const deadline = Date.now() + spec.readyWithinMs;
  let ended: Exit | undefined;
  void child.exited.then((exit) => {
    ended = exit;
  });
  let last: unknown;
  for (let wait = 20; ; wait = Math.min(wait * 1.3, 250)) {
    signal.throwIfAborted();
    if (ended) throw new ServiceStartError(spec.name, `ended at start (${describeExit(ended)})`, logFile);
    try {
      await spec.probe(AbortSignal.any([signal, AbortSignal.timeout(5_000)]));
      // If the process has ended, another one answered at its address.
      if (!ended) return;
    } catch (error) {
      signal.throwIfAborted();
      last = error;
    }
    if (Date.now() > deadline) {
      const seconds = Math.round(spec.readyWithinMs / 1000);
      const why = last instanceof Error ? `: ${last.message}` : '';
      throw new ServiceStartError(spec.name, `did not answer within ${seconds} s${why}`, logFile);
    }
    await Promise.race([delay(wait, undefined, { signal }).catch(() => {}), child.exited]);
  }
}

export function describeExit(exit: Exit): string {
  return exit.signal ? `killed by ${exit.signal}` : `exit status ${exit.code}`;
}

/** Returns the last lines of a log, at most 8 kB; empty when there is none. */
export function tailOf(file: string, lines: number): string {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch {
    return '';
  }
  try {
    const size = fstatSync(fd).size;
    const buffer = Buffer.alloc(Math.min(size, 8192));
    readSync(fd, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString('utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } finally {
    closeSync(fd);
  }
}
