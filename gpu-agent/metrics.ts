import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createStageLabels } from './attempts/stage-labels.ts';

export type AgentMetrics = ReturnType<typeof createAgentMetrics>;

/** Creates the agent's metrics. `slots` and `slotsUsed` are read at each scrape. */
export function createAgentMetrics(
  registry: Registry,
  read: {
    slots: () => number;
    slotsUsed: () => number;
    unacknowledged: () => number;
    /** Tells whether a device that an engine needs is unusable. */
    deviceGone?: () => boolean;
  },
) {
  const registers = [registry];
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  gauge('semblance_agent_slots', 'Renders the warm engines can hold at once', read.slots);
  gauge('semblance_agent_slots_used', 'Slots taken by running attempts', read.slotsUsed);
  gauge(
    'semblance_agent_results_unacknowledged',
    'Ended attempts that wait to be acknowledged',
    read.unacknowledged,
  );
  gauge('semblance_agent_device_gone', 'A device that an engine needs cannot be used: 1 or 0', () =>
    read.deviceGone?.() ? 1 : 0,
  );
  const stageLabel = createStageLabels();
  const stageSeconds = new Histogram({
    name: 'semblance_agent_stage_seconds',
    help: 'Time of each stage of succeeded attempts',
    labelNames: ['capability', 'stage'],
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120, 600],
    registers,
  });
  return {
    calls: new Histogram({
      name: 'semblance_agent_call_seconds',
      help: 'Duration of calls of the operator, by method and gRPC status',
      labelNames: ['method', 'status'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
      registers,
    }),
    attempts: new Counter({
      name: 'semblance_agent_attempts_total',
      help: 'Attempts that ended, by outcome',
      labelNames: ['capability', 'outcome'],
      registers,
    }),
    inspections: new Counter({
      name: 'semblance_agent_inspections_total',
      help: 'Inspections that ended, by outcome',
      labelNames: ['capability', 'outcome'],
      registers,
    }),
    refusals: new Counter({
      name: 'semblance_agent_starts_refused_total',
      help: 'Starts refused, by reason',
      labelNames: ['why'],
      registers,
    }),
    /** Records the time of a stage of a succeeded attempt, under its own name or as `other`. */
    stageTook(capability: string, stage: string, milliseconds: number): void {
      stageSeconds.observe({ capability, stage: stageLabel(capability, stage) }, milliseconds / 1_000);
    },
    fetchedBytes: new Counter({
      name: 'semblance_agent_fetched_bytes_total',
      help: 'Bytes of inputs that arrived',
      registers,
    }),
    storedBytes: new Counter({
      name: 'semblance_agent_stored_bytes_total',
      help: 'Bytes of outputs that were sent',
      registers,
    }),
    transferRetries: new Counter({
      name: 'semblance_agent_transfer_retries_total',
      help: 'Transfers tried again',
      labelNames: ['direction'],
      registers,
    }),
    contentChecks: new Counter({
      name: 'semblance_agent_content_checks_total',
      help: 'Content checks made, by check, what was looked at, and result',
      labelNames: ['check', 'phase', 'result'],
      registers,
    }),
    unitCorrections: new Counter({
      name: 'semblance_agent_unit_corrections_total',
      help: 'Outputs of which an engine said other units than were measured and charged',
      labelNames: ['capability', 'engine'],
      registers,
    }),
    engineRestarts: new Counter({
      name: 'semblance_agent_engine_restarts_total',
      help: 'Engine processes that ended or did not start, and were started again',
      labelNames: ['engine'],
      registers,
    }),
  };
}
