import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { ApiError } from '#common/errors.ts';
import type { CallContext } from '#common/grpc/server.ts';
import type { SettledFacts } from './jobs/settle.ts';
import type { Database } from './storage/database.ts';

type Handler<Request, Response> = (request: Request, context: CallContext) => Promise<Response>;

export interface Metrics {
  /** Measures a call: how long, and with which code it ended. */
  timed<Request, Response>(method: string, handler: Handler<Request, Response>): Handler<Request, Response>;
  submitted(outcome: string, capability: string): void;
  settled(facts: SettledFacts): void;
  paid(kind: string, seconds: number): void;
  webhook(event: string, answer: { status: number | undefined; error: string | undefined }): void;
}

/** The control plane's figures: calls, jobs, money, and what the outbox still owes. */
export function createMetrics(registry: Registry, database: Database): Metrics {
  const registers = [registry];
  const calls = new Histogram({
    name: 'semblance_control_call_seconds',
    help: 'Duration of calls by method and API error code (ok when none).',
    labelNames: ['method', 'code'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers,
  });
  const submits = new Counter({
    name: 'semblance_jobs_submitted_total',
    help: 'Submits by capability and outcome.',
    labelNames: ['capability', 'outcome'],
    registers,
  });
  const settlements = new Counter({
    name: 'semblance_jobs_settled_total',
    help: 'Jobs that ended, by capability, status and reason.',
    labelNames: ['capability', 'status', 'reason'],
    registers,
  });
  const charged = new Counter({
    name: 'semblance_money_charged_usd_total',
    help: 'Charges of settled jobs.',
    labelNames: ['capability'],
    registers,
  });
  const shortfall = new Counter({
    name: 'semblance_money_shortfall_usd_total',
    help: 'Part of the charges that the hold did not cover.',
    registers,
  });
  const payments = new Histogram({
    name: 'semblance_outbox_delay_seconds',
    help: 'From the commit to the payment of what it owes, by kind.',
    labelNames: ['kind'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers,
  });
  const webhooks = new Counter({
    name: 'semblance_webhook_attempts_total',
    help: 'Attempts at deliveries, by event and outcome (delivered, refused: an answer that is not 2xx, failed: none).',
    labelNames: ['event', 'outcome'],
    registers,
  });
  storedFigures(registers, database);
  return {
    timed: (method, handler) => async (request, context) => {
      const end = calls.startTimer({ method });
      try {
        const response = await handler(request, context);
        end({ code: 'ok' });
        return response;
      } catch (error) {
        end({ code: error instanceof ApiError ? error.code : 'internal_error' });
        throw error;
      }
    },
    submitted: (outcome, capability) => submits.inc({ capability, outcome }),
    settled({ capability = 'unknown', status, reason, chargedMicros, shortfallMicros }) {
      settlements.inc({ capability, status, reason: reason ?? '' });
      charged.inc({ capability }, Number(chargedMicros) / 1e6);
      shortfall.inc(Number(shortfallMicros) / 1e6);
    },
    webhook: (event, { status, error }) =>
      webhooks.inc({
        event,
        outcome: error === undefined ? 'delivered' : status === undefined ? 'failed' : 'refused',
      }),
    paid: (kind, seconds) => payments.observe({ kind }, Math.max(0, seconds)),
  };
}

/** Figures that are read from the database when they are asked for; absent while it does not answer. */
function storedFigures(registers: Registry[], database: Database): void {
  const held = new Gauge({ name: 'semblance_money_held_usd', help: 'Sum of all pending holds.', registers });
  const inFlight = new Gauge({
    name: 'semblance_jobs_in_flight',
    help: 'Jobs queued or processing.',
    registers,
  });
  const owed = new Gauge({
    name: 'semblance_outbox_owed',
    help: 'Debts of the outbox, by kind.',
    labelNames: ['kind'],
    registers,
  });
  new Gauge({
    name: 'semblance_outbox_oldest_seconds',
    help: 'Age of the oldest debt of the outbox.',
    registers,
    async collect() {
      type Figures = { held: bigint; jobs: number; renderjobs: number; events: number; oldest: number };
      const [row] = await database.fast<Figures[]>`
            select (select coalesce(sum(hold_micros), 0)::bigint from jobs where settled_at is null) as held,
                   (select count(*)::int from jobs where settled_at is null) as jobs,
                   count(*) filter (where kind = 'renderjob')::int as renderjobs,
                   count(*) filter (where kind = 'event')::int as events,
                   coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest
            from outbox`.catch(() => []);
      if (!row) {
        for (const gauge of [held, inFlight, this]) gauge.remove();
        owed.reset();
        return;
      }
      held.set(Number(row.held) / 1e6);
      inFlight.set(row.jobs);
      owed.set({ kind: 'renderjob' }, row.renderjobs);
      owed.set({ kind: 'event' }, row.events);
      this.set(row.oldest);
    },
  });
}
