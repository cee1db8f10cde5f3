import { counter, gauge, histogram } from '@semblance/common/kube/index';
import type { Registry } from 'prom-client';

export type AllocationOutcome =
  | 'allocated'
  | 'again'
  | 'capacity_warming'
  | 'capacity_unavailable'
  | 'failed';

export interface LiveMetrics {
  allocated(capability: string, outcome: AllocationOutcome, seconds: number): void;
  /** Counts a slot that an agent refused. */
  refused(kind: string): void;
  waiting(capability: string, count: number): void;
  ended(capability: string, reason: string): void;
}

export function createLiveMetrics(registry: Registry): LiveMetrics {
  const allocations = counter(registry, {
    name: 'semblance_allocations_total',
    help: 'Live sessions that asked for a slot, by capability and outcome.',
    labelNames: ['capability', 'outcome'] as const,
  });
  const latency = histogram(registry, {
    name: 'semblance_allocation_seconds',
    help: 'Time from the request until the slot is held and the LiveSession written.',
    labelNames: ['capability'] as const,
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 5],
  });
  const refusals = counter(registry, {
    name: 'semblance_claims_refused_total',
    help: 'Slots that an agent was asked for and did not give, by why.',
    labelNames: ['why'] as const,
  });
  const waiting = gauge(registry, {
    name: 'semblance_allocations_waiting',
    help: 'Live sessions that wait for a slot.',
    labelNames: ['capability'] as const,
  });
  const ended = counter(registry, {
    name: 'semblance_livesessions_ended_total',
    help: 'LiveSessions that ended, by capability and reason.',
    labelNames: ['capability', 'reason'] as const,
  });
  return {
    allocated(capability, outcome, seconds) {
      allocations.inc({ capability, outcome });
      if (outcome === 'allocated') latency.observe({ capability }, seconds);
    },
    refused: (why) => refusals.inc({ why }),
    waiting: (capability, count) => waiting.set({ capability }, count),
    ended: (capability, reason) => ended.inc({ capability, reason }),
  };
}
