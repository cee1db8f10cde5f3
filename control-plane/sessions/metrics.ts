import { Counter, Histogram, type Registry } from 'prom-client';
import type { EndedFacts } from './reports.ts';

export interface SessionMetrics {
  opened(outcome: string, capability: string): void;
  /** @param outcome `ok`, or the API's error code */
  allocated(seconds: number, outcome: string): void;
  ended(facts: EndedFacts): void;
}

/** @param onRevenue called for each charge, in micro-dollars */
export function createSessionMetrics(
  registers: Registry[],
  onRevenue: (capability: string, micros: bigint) => void,
): SessionMetrics {
  const opens = new Counter({
    name: 'semblance_sessions_opened_total',
    help: 'Openings of sessions by capability and outcome (opened, or why not).',
    labelNames: ['capability', 'outcome'],
    registers,
  });
  const allocations = new Histogram({
    name: 'semblance_session_allocation_seconds',
    help: 'From the committed opening of a session until the operator answered, by outcome (ok, or an API error code).',
    labelNames: ['outcome'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5],
    registers,
  });
  const settled = new Counter({
    name: 'semblance_sessions_settled_total',
    help: 'Sessions that ended, by capability, status and reason.',
    labelNames: ['capability', 'status', 'reason'],
    registers,
  });
  const streamed = new Counter({
    name: 'semblance_sessions_streamed_seconds_total',
    help: 'Seconds that ended sessions had streamed and were charged for.',
    labelNames: ['capability'],
    registers,
  });
  return {
    opened: (outcome, capability) => opens.inc({ capability, outcome }),
    allocated: (seconds, outcome) => allocations.observe({ outcome }, seconds),
    ended({ capability, status, reason, streamedMs, chargedMicros }) {
      settled.inc({ capability, status, reason: reason ?? '' });
      streamed.inc({ capability }, Number(streamedMs) / 1000);
      onRevenue(capability, chargedMicros);
    },
  };
}
