import { counter, histogram } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Registry } from 'prom-client';
import { isFinished, phaseOf } from './renderjob/status.ts';

export interface OperatorMetrics {
  /** Notes that the job waits; only the first call counts. */
  queued(uid: string): void;
  /** Observes that an agent took the job's attempt on. */
  dispatched(job: RenderJob): void;
  statusWritten(before: RenderJob, after: RenderJob): void;
  forget(uid: string): void;
}

export function createOperatorMetrics(registry: Registry): OperatorMetrics {
  const queuedAt = new Map<string, number>();
  const latency = histogram(registry, {
    name: 'semblance_dispatch_seconds',
    help: 'Time from when a job was first seen to wait, or waits again, until an agent took it on.',
    labelNames: ['capability'] as const,
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600, 3600],
  });
  const writes = counter(registry, {
    name: 'semblance_status_writes_total',
    help: 'Writes of RenderJob statuses, by the phase written.',
    labelNames: ['phase'] as const,
  });
  const finished = counter(registry, {
    name: 'semblance_jobs_finished_total',
    help: 'RenderJobs that ended, by capability, phase and reason.',
    labelNames: ['capability', 'phase', 'reason'] as const,
  });
  return {
    queued(uid) {
      if (!queuedAt.has(uid)) queuedAt.set(uid, performance.now());
    },
    dispatched({ metadata, spec }) {
      const since = queuedAt.get(metadata.uid ?? '');
      queuedAt.delete(metadata.uid ?? '');
      if (since !== undefined)
        latency.observe({ capability: spec.capability }, (performance.now() - since) / 1000);
    },
    statusWritten(before, after) {
      const phase = phaseOf(after);
      writes.inc({ phase });
      if (isFinished(before) || !isFinished(after)) return;
      const reason = after.status?.conditions?.find(({ type }) => type === 'Ready')?.reason ?? '';
      finished.inc({ capability: after.spec.capability, phase, reason });
    },
    forget: (uid) => queuedAt.delete(uid),
  };
}
