import { Registry } from 'prom-client';
import { describeError } from '../errors.ts';
import { counter, gauge, histogram } from '../kube/metrics.ts';
import type { Logger } from '../logging.ts';
import { backoffMs, jittered } from './backoff.ts';

/** Longest delay that a timer accepts, in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface WorkQueueOptions {
  /**
   * Processes one key. The queue never runs it twice at once for the same key, and retries with backoff when it
   * throws.
   */
  readonly process: (key: string, signal: AbortSignal) => Promise<{ requeueAfterMs: number } | undefined>;
  readonly concurrency: number;
  readonly name: string;
  readonly logger: Logger;
  readonly registry?: Registry;
  /** First delay after a failure of a key, in ms. Default 50. */
  readonly baseDelayMs?: number;
  /** Longest delay after failures, in ms. Default 30,000. */
  readonly maxDelayMs?: number;
}

/**
 * Queue of keys to work on, in which each key stands once, however often it was added. A key that is added while it
 * is worked on is worked on again afterwards. Only failed keys are delayed. Callers of `addFirst` must keep such
 * keys few: while there are any, no other key starts.
 */
export interface WorkQueue {
  add(key: string): void;
  /** Adds the key ahead of all keys that `add` added. */
  addFirst(key: string): void;
  /** Adds the key after `ms` milliseconds. If it is delayed several times, the earliest time counts. */
  addAfter(key: string, ms: number): void;
  /** Works until the signal aborts. Resolves when the work under way has ended. */
  run(signal: AbortSignal): Promise<void>;
  /** Number of keys that wait for a worker. */
  readonly depth: number;
  /** Resolves when no key is ready or being worked on. Delayed keys do not count. */
  idle(): Promise<void>;
}

export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  const { process, concurrency, name, logger, baseDelayMs = 50, maxDelayMs = 30_000 } = options;
  const metrics = queueMetrics(options.registry ?? new Registry(), name);
  /** Ready keys in order, each with the time at which it became ready. Keys in `first` go before those in `ready`. */
  const ready = new Map<string, number>();
  const first = new Map<string, number>();
  const working = new Set<string>();
  /** Keys that were added while they were worked on, with the function that adds them again. */
  const again = new Map<string, (key: string) => void>();
  const delayed = new Map<string, { readonly at: number; readonly timer: NodeJS.Timeout }>();
  const failures = new Map<string, number>();
  let stop: AbortSignal | undefined;
  let idlers: (() => void)[] = [];

  function add(key: string): void {
    if (stop?.aborted) return;
    undelay(key);
    if (working.has(key)) again.set(key, again.get(key) ?? add);
    else if (!ready.has(key) && !first.has(key)) enter(ready, key, performance.now());
  }

  function addFirst(key: string): void {
    if (stop?.aborted) return;
    undelay(key);
    if (working.has(key)) again.set(key, addFirst);
    else if (!first.has(key)) {
      const since = ready.get(key);
      ready.delete(key);
      enter(first, key, since ?? performance.now());
    }
  }

  function enter(lane: Map<string, number>, key: string, since: number): void {
    lane.set(key, since);
    metrics.depth.set(depth());
    dispatch();
  }

  const depth = () => ready.size + first.size;

  function undelay(key: string): void {
    clearTimeout(delayed.get(key)?.timer);
    delayed.delete(key);
  }

  function addAfter(key: string, ms: number): void {
    if (stop?.aborted) return;
    if (ms <= 0) {
      add(key);
      return;
    }
    const at = performance.now() + ms;
    const before = delayed.get(key);
    if (before && before.at <= at) return;
    undelay(key);
    const timer = setTimeout(
      () => {
        delayed.delete(key);
        // The delay may exceed MAX_TIMER_MS: wait for the rest, or add the key if no time is left.
        addAfter(key, at - performance.now());
      },
      Math.min(ms, MAX_TIMER_MS),
    );
    delayed.set(key, { at, timer });
  }

  function dispatch(): void {
    while (stop && !stop.aborted && working.size < concurrency) {
      const lane = first.size > 0 ? first : ready;
      const next = lane.entries().next().value;
      if (!next) break;
      const [key, since] = next;
      lane.delete(key);
      working.add(key);
      metrics.depth.set(depth());
      metrics.wait.observe((performance.now() - since) / 1000);
      void work(key, stop);
    }
  }

  async function work(key: string, signal: AbortSignal): Promise<void> {
    const began = performance.now();
    try {
      const result = await process(key, signal);
      failures.delete(key);
      if (result) addAfter(key, result.requeueAfterMs);
    } catch (error) {
      if (!signal.aborted) {
        const count = failures.get(key) ?? 0;
        failures.set(key, count + 1);
        metrics.failures.inc();
        logger.warn({ key, failures: count + 1, reason: describeError(error) }, `${name} failed, will retry`);
        addAfter(key, jittered(backoffMs(count, baseDelayMs, maxDelayMs)));
      }
    } finally {
      metrics.duration.observe((performance.now() - began) / 1000);
      working.delete(key);
      const addAgain = again.get(key);
      again.delete(key);
      addAgain?.(key);
      dispatch();
      if (working.size === 0 && (depth() === 0 || signal.aborted)) {
        for (const resolve of idlers) resolve();
        idlers = [];
      }
    }
  }

  function idle(): Promise<void> {
    if (working.size === 0 && (depth() === 0 || stop?.aborted)) return Promise.resolve();
    return new Promise((resolve) => idlers.push(resolve));
  }

  return {
    add,
    addFirst,
    addAfter,
    async run(signal) {
      stop = signal;
      dispatch();
      if (!signal.aborted) {
        await new Promise<void>((resolve) =>
          signal.addEventListener('abort', () => resolve(), { once: true }),
        );
      }
      for (const key of [...delayed.keys()]) undelay(key);
      await idle();
      ready.clear();
      first.clear();
      again.clear();
      failures.clear();
      metrics.depth.set(0);
    },
    get depth() {
      return depth();
    },
    idle,
  };
}

function queueMetrics(registry: Registry, queue: string) {
  const labelNames = ['queue'] as const;
  const buckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];
  return {
    depth: gauge(registry, {
      name: 'semblance_queue_depth',
      help: 'Keys that wait for a worker.',
      labelNames,
    }).labels(queue),
    failures: counter(registry, {
      name: 'semblance_queue_failures_total',
      help: 'Work that failed and is tried again.',
      labelNames,
    }).labels(queue),
    wait: histogram(registry, {
      name: 'semblance_queue_wait_seconds',
      help: 'Time a key waited for a worker.',
      labelNames,
      buckets,
    }).labels(queue),
    duration: histogram(registry, {
      name: 'semblance_queue_work_seconds',
      help: 'Time the work of a key took.',
      labelNames,
      buckets,
    }).labels(queue),
  };
}
