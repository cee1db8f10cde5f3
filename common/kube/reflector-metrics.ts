import type { Registry } from 'prom-client';
import { counter, gauge } from './metrics.ts';

/** Functions that return how long the API has been silent, in ms, by registry and resource. */
const silences = new WeakMap<Registry, Map<string, () => number>>();

/** Returns the metrics of one reflector, labelled with its resource. */
export function reflectorMetrics(registry: Registry, resource: string, silentMs: () => number) {
  const sources = silences.get(registry) ?? new Map<string, () => number>();
  silences.set(registry, sources.set(resource, silentMs));
  gauge(registry, {
    name: 'semblance_kube_silence_seconds',
    help: 'Time since the API last said anything on this resource; bookmarks come about every minute.',
    labelNames: ['resource'] as const,
    collect() {
      for (const [name, ask] of sources) this.set({ resource: name }, ask() / 1000);
    },
  });
  const failures = counter(registry, {
    name: 'semblance_kube_watch_failures_total',
    help: 'Lists and watches that failed, by error code.',
    labelNames: ['resource', 'code'] as const,
  });
  return {
    objects: gauge(registry, {
      name: 'semblance_kube_objects',
      help: 'Objects in the local copy.',
      labelNames: ['resource'] as const,
    }).labels(resource),
    lists: counter(registry, {
      name: 'semblance_kube_lists_total',
      help: 'Complete lists taken.',
      labelNames: ['resource'] as const,
    }).labels(resource),
    events: counter(registry, {
      name: 'semblance_kube_watch_events_total',
      help: 'Changes that watches delivered.',
      labelNames: ['resource'] as const,
    }).labels(resource),
    missed: counter(registry, {
      name: 'semblance_kube_missed_total',
      help: 'Objects that a periodic list found and the watch had not delivered.',
      labelNames: ['resource'] as const,
    }).labels(resource),
    failures: { inc: ({ code }: { code: string }) => failures.inc({ resource, code }) },
  };
}
