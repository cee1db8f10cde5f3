import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Bell, createBell } from '@semblance/common/async/bell';
import { type GuardedChild, spawnGuarded } from '@semblance/common/process/child';
import type { Guard } from '@semblance/common/process/guard';
import { recordChildren } from './process/children-record.ts';
import { rotateLog } from './process/log-rotation.ts';
import { describeExit, type ServiceSpec, ServiceStartError, untilReady } from './process/service.ts';

export type SupervisorEvent =
  | { type: 'started'; service: string; pid: number; restarts: number }
  | { type: 'ready'; service: string; afterMs: number; restarts: number }
  | { type: 'restarting'; service: string; why: string }
  | { type: 'failed'; service: string; why: string; restartInMs: number };

export type Backoff = {
  initialMs: number;
  maxMs: number;
  /** Time of service after which the next failure waits only the initial delay again, in ms. */
  stableMs: number;
};

export type SupervisorOptions = {
  services: ServiceSpec[];
  guard: Guard;
  /** Folder in which each service appends to `<name>.log`. */
  logDir: string;
  /** File with the pids, for the case that this process and its guard are both killed. */
  childrenFile: string;
  onEvent?: (event: SupervisorEvent) => void;
  backoff?: Backoff;
  /** Number of failures before its first success after which `start` gives up on a service. Default 3. */
  firstAttempts?: number;
  logCheckMs?: number;
};

export type Supervisor = {
  /**
   * Starts every service after its dependencies are ready, and resolves when all are ready at the same time.
   * Rejects with the error of the first one that fails for good.
   */
  start(): Promise<void>;
  /** Pid of the latest process of each service that was started. */
  pids(): Record<string, number>;
  /**
   * Ends a service in order and starts it again at once. A service that waits for its next start is started at
   * once.
   */
  restart(service: string, why: string): void;
  /** Ends every service, each after its dependents have ended. */
  stop(): Promise<void>;
};

const BACKOFF: Backoff = { initialMs: 250, maxMs: 15_000, stableMs: 30_000 };

type Kept = {
  spec: ServiceSpec;
  logFile: string;
  child?: GuardedChild;
  pid?: number;
  loop?: Promise<void>;
  serving: boolean;
  /** Failures in a row, without `stableMs` of service in between. */
  failures: number;
  /** Reason of a requested restart; undefined: none was requested. */
  asked?: string | undefined;
  /** Rung to end the wait before the next start. */
  readonly again: Bell;
  ready: PromiseWithResolvers<void>;
  stopped?: Promise<void>;
};

/** Keeps a set of services running: starts them in order, restarts those that end, ends them in reverse order. */
export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { services, guard, logDir, childrenFile, onEvent = () => {}, backoff = BACKOFF } = options;
  const { firstAttempts = 3, logCheckMs = 20_000 } = options;
  mkdirSync(logDir, { recursive: true });
  const stopping = new AbortController();
  const kept = new Map<string, Kept>();
  for (const spec of services) {
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => {});
    kept.set(spec.name, {
      spec,
      logFile: join(logDir, `${spec.name}.log`),
      serving: false,
      failures: 0,
      again: createBell(),
      ready,
    });
  }
  const dependenciesOf = (one: Kept) => (one.spec.after ?? []).flatMap((name) => kept.get(name) ?? []);
  const dependentsOf = (one: Kept) =>
    [...kept.values()].filter((other) => dependenciesOf(other).includes(one));

  const launch = async (one: Kept, restarts: number) => {
    const startedAt = Date.now();
    await rotateLog({ file: one.logFile, open: false });
    const launch = await one.spec.launch(stopping.signal);
    stopping.signal.throwIfAborted();
    const child = await spawnGuarded({
      launch,
      guard,
      logFile: one.logFile,
      stopSignal: one.spec.stopSignal,
    });
    one.child = child;
    one.pid = child.pid;
    recordChildren(
      childrenFile,
      [...kept.values()].flatMap(({ child }) => child?.pid ?? []),
    );
    onEvent({ type: 'started', service: one.spec.name, pid: child.pid, restarts });
    await untilReady({ spec: one.spec, child, logFile: one.logFile, signal: stopping.signal });
    await one.spec.whenReady?.(stopping.signal);
    onEvent({ type: 'ready', service: one.spec.name, afterMs: Date.now() - startedAt, restarts });
  };

  /** Runs one service until the stack ends. */
  const keep = async (one: Kept) => {
    const { signal } = stopping;
    let served = false;
    for (let restarts = 0; !signal.aborted; restarts++) {
      let why: string;
      let error: unknown;
      try {
        await launch(one, restarts);
        served = true;
        one.serving = true;
        one.ready.resolve();
        const readyAt = Date.now();
        const exit = await (one.child as GuardedChild).exited;
        one.serving = false;
        why = `ended (${describeExit(exit)}), see ${one.logFile}`;
        if (Date.now() - readyAt >= backoff.stableMs) one.failures = 0;
      } catch (cause) {
        error = cause;
        why = describe(cause);
        // The process may run without being ready, or may have started just when the stack was stopped.
        await one.child?.stop(one.spec.graceMs);
      }
      if (signal.aborted) return;
      if (one.asked !== undefined) {
        onEvent({ type: 'restarting', service: one.spec.name, why: one.asked });
        one.asked = undefined;
        one.failures = 0;
        continue;
      }
      one.failures++;
      if (!served && one.failures >= firstAttempts) {
        one.ready.reject(error ?? new ServiceStartError(one.spec.name, 'keeps ending', one.logFile));
        return;
      }
      const restartInMs = delayBefore(one.failures, backoff);
      onEvent({ type: 'failed', service: one.spec.name, why, restartInMs });
      signal.addEventListener('abort', one.again.ring, { once: true });
      await one.again.wait(restartInMs);
      signal.removeEventListener('abort', one.again.ring);
    }
  };

  /** Waits until all services are ready at once, because one may have ended while others were starting. */
  const allServe = async () => {
    for (;;) {
      stopping.signal.throwIfAborted();
      const down = [...kept.values()].filter(({ serving }) => !serving);
      if (down.length === 0) return;
      const hopeless = down.find(({ failures }) => failures >= firstAttempts);
      if (hopeless) throw new ServiceStartError(hopeless.spec.name, 'keeps ending', hopeless.logFile);
      await delay(20, undefined, { signal: stopping.signal });
    }
  };

  const stopOne = (one: Kept): Promise<void> => {
    one.stopped ??= (async () => {
      await Promise.all(dependentsOf(one).map(stopOne));
      await one.child?.stop(one.spec.graceMs);
      await one.loop;
    })();
    return one.stopped;
  };

  let logCheck: NodeJS.Timeout | undefined;
  return {
    async start() {
      logCheck = setInterval(() => {
        for (const { logFile } of kept.values())
          void rotateLog({ file: logFile, open: true }).catch(() => {});
      }, logCheckMs);
      logCheck.unref();
      await Promise.all(
        [...kept.values()].map(async (one) => {
          await Promise.all(dependenciesOf(one).map(({ ready }) => ready.promise));
          if (stopping.signal.aborted) return;
          one.loop = keep(one);
          await one.ready.promise;
        }),
      );
      await allServe();
    },
    pids: () =>
      Object.fromEntries(
        [...kept].flatMap(([name, { pid }]) => (pid === undefined ? [] : [[name, pid] as const])),
      ),
    restart(service, why) {
      const one = kept.get(service);
      if (!one || stopping.signal.aborted || one.asked !== undefined) return;
      if (one.serving) {
        one.asked = why;
        void one.child?.stop(one.spec.graceMs);
      } else one.again.ring();
    },
    async stop() {
      clearInterval(logCheck);
      stopping.abort(new Error('the stack is stopping'));
      for (const { ready } of kept.values()) ready.reject(stopping.signal.reason);
      await Promise.all([...kept.values()].map(stopOne));
    },
  };
}

/**
 * Returns the backoff delay in ms. It doubles with each failure; half of it is random, so that services do not
 * restart in step.
 */
function delayBefore(failures: number, { initialMs, maxMs }: Backoff): number {
  const full = Math.min(maxMs, initialMs * 2 ** (failures - 1));
  return Math.round(full / 2 + (Math.random() * full) / 2);
}

function describe(cause: unknown): string {
  if (cause instanceof ServiceStartError) return `${cause.brief}, see ${cause.logFile}`;
  return cause instanceof Error ? cause.message : String(cause);
}
