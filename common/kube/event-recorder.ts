import { randomBytes } from 'node:crypto';
import { pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { EVENT_RESOURCE, type KubeEvent, type KubeObject, microTime } from './resources.ts';

/** Time in ms within which a repeated event of the same object is counted in its series instead of written anew. */
const SERIES_MS = 6 * 60_000;
/**
 * Largest number of events that wait to be written. Beyond it the oldest are dropped, because events are optional
 * and must not fill the memory.
 */
const MAX_WAITING = 1_000;
/** Longest note that the API accepts, in bytes. */
const MAX_NOTE = 1_024;

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** Reporting controller, such as `semblance.dev/operator`. */
  readonly component: string;
  /** Name of this process, such as its Pod's name. */
  readonly instance: string;
  readonly logger: Logger;
}

export interface EventToRecord {
  readonly type: 'Normal' | 'Warning';
  /** Machine-readable reason, in UpperCamelCase. */
  readonly reason: string;
  /** What was done or tried, in UpperCamelCase. */
  readonly action: string;
  readonly note: string;
}

export interface EventRecorder {
  /** Records an event. Never throws and never waits. */
  event(regarding: KubeObject, event: EventToRecord): void;
  /** Writes events until the signal aborts. Then writes those that wait, for at most two seconds. */
  run(signal: AbortSignal): Promise<void>;
}

interface Series {
  readonly name: string;
  readonly namespace: string;
  readonly startedAt: number;
  count: number;
}

/** Creates a recorder of events.k8s.io/v1 Events, which writes repeated events as a series. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, component, instance, logger } = options;
  const waiting: { readonly key: string; readonly event: KubeEvent; readonly series: Series }[] = [];
  const recent = new Map<string, Series>();
  let wake = () => {};

  function event(regarding: KubeObject, { type, reason, action, note }: EventToRecord): void {
    const { namespace = 'default', name = '', uid = '', resourceVersion } = regarding.metadata;
    const key = [uid, type, reason, action, note].join('\0');
    const before = recent.get(key);
    const series =
      before && performance.now() - before.startedAt < SERIES_MS
        ? before
        : {
            // Names follow client-go: the object's name and a unique suffix.
            name: `${name.slice(0, 200)}.${Date.now().toString(16)}${randomBytes(4).toString('hex')}`,
            namespace,
            startedAt: performance.now(),
            count: 0,
          };
    series.count++;
    recent.set(key, series);
    // The series is waiting already, and its count is read when it is written.
    if (waiting.some((entry) => entry.series === series)) return;
    waiting.push({
      key,
      series,
      event: {
        metadata: { name: series.name, namespace },
        eventTime: microTime(),
        type,
        reason,
        action,
        note: clipBytes(note, MAX_NOTE),
        regarding: {
          apiVersion: regarding.apiVersion,
          kind: regarding.kind,
          namespace,
          name,
          uid,
          resourceVersion,
        },
        reportingController: component,
        reportingInstance: instance,
      },
    });
    if (waiting.length > MAX_WAITING) waiting.shift();
    wake();
  }

  async function write(entry: (typeof waiting)[number], signal: AbortSignal): Promise<void> {
    const { event, series } = entry;
    if (series.count === 1) {
      await client.create(EVENT_RESOURCE, event, { signal });
      return;
    }
    const patch = { series: { count: series.count, lastObservedTime: microTime() } };
    const ref = { namespace: series.namespace, name: series.name };
    try {
      await client.mergePatch(EVENT_RESOURCE, ref, patch, { signal });
    } catch (error) {
      if (!isKubeError(error, 'not_found')) throw error;
      await client.create(EVENT_RESOURCE, { ...event, ...patch }, { signal });
    }
  }

  async function flush(signal: AbortSignal): Promise<void> {
    for (;;) {
      const entry = waiting[0];
      if (!entry || signal.aborted) return;
      const { count } = entry.series;
      try {
        await write(entry, signal);
        // The event was repeated during the write, so the new count must be written too.
        if (entry.series.count > count && waiting.includes(entry)) continue;
      } catch (error) {
        if (signal.aborted) return;
        if (isKubeError(error) && error.retryable) {
          await pause(1_000, signal);
          continue;
        }
        logger.debug({ reason: describeError(error) }, 'cannot record an event');
      }
      const at = waiting.indexOf(entry);
      if (at !== -1) waiting.splice(at, 1);
    }
  }

  function forget(): void {
    const old = performance.now() - SERIES_MS;
    for (const [key, series] of recent) if (series.startedAt < old) recent.delete(key);
  }

  return {
    event,
    async run(signal) {
      const sweep = setInterval(forget, SERIES_MS / 2);
      sweep.unref();
      signal.addEventListener('abort', () => wake(), { once: true });
      while (!signal.aborted) {
        await flush(signal);
        if (signal.aborted) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (waiting.length > 0 || signal.aborted) resolve();
        });
      }
      clearInterval(sweep);
      await flush(AbortSignal.timeout(2_000));
    },
  };
}

/** Returns the text, cut to at most `limit` bytes of UTF-8 between characters. */
function clipBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return text;
  let end = limit - 3;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}…`;
}
