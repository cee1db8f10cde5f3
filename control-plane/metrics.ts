import { ApiError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { SettledFacts } from './jobs/settle.ts';
import { createSessionMetrics, type SessionMetrics } from './sessions/metrics.ts';
import type { Database } from './storage/database.ts';
import { storedFigures } from './stored-figures.ts';

type Handler<Request, Response> = (request: Request, context: CallContext) => Promise<Response>;

export interface Metrics {
  /** Measures a call: its time, and the code with which it ended. */
  timed<Request, Response>(method: string, handler: Handler<Request, Response>): Handler<Request, Response>;
  /** Records the answer to a message of many requests. */
  answered(method: string): (seconds: number, code: string) => void;
  submitted(outcome: string, capability: string, holdMicros: bigint): void;
  settled(facts: SettledFacts): void;
  readonly sessions: SessionMetrics;
  paid(kind: string, seconds: number): void;
  /** Counts the charge of a preview. */
  readonly previewCharged: (capability: string, micros: bigint) => void;
  /** Counts an admin call that was refused, by the reason. */
  adminRefused(reason: string): void;
  mediaDeleted(deleted: { kind: string; removedBy: string; bytes: bigint }): void;
  webhook(event: string, answer: { status: number | undefined; error: string | undefined }): void;
}

/** Creates the control plane's metrics: calls, jobs, money, and the debts of the outbox. */
export function createMetrics(registry: Registry, database: Database): Metrics {
  const registers = [registry];
  const calls = new Histogram({
    name: 'semblance_control_call_seconds',
    help: 'Duration of calls by method and API error code (ok when none).',
    labelNames: ['method', 'code'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers,
  });
  const inFlight = new Gauge({
    name: 'semblance_control_calls_in_flight',
    help: 'Calls that have begun and are not answered.',
    registers,
  });
  new Gauge({
    name: 'semblance_database_connections',
    help: 'Connections to the database by pool (money, fast) and state; waiting: statements that wait for one.',
    labelNames: ['pool', 'state'],
    registers,
    collect() {
      for (const [pool, sql] of [
        ['money', database.sql],
        ['fast', database.fast],
      ] as const)
        for (const [state, count] of Object.entries(sql.pressure())) this.set({ pool, state }, count);
    },
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
  const micros = <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
    new Counter<L>({ name: `semblance_money_${name}_micros_total`, help, labelNames, registers });
  const holds = micros('holds', 'Holds placed by submits, in micro-dollars.', ['capability']);
  const captured = micros('captured', 'Part of the charges that was taken from holds, in micro-dollars.');
  const released = micros('released', 'Part of the holds that went back to the balance, in micro-dollars.');
  const shortfall = micros(
    'shortfall',
    'Part of the charges that the holds did not cover, in micro-dollars.',
  );
  const revenue = micros(
    'revenue',
    'Charges of settled jobs and sessions and of previews, in micro-dollars.',
    ['capability'],
  );
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
  const media = new Counter({
    name: 'semblance_media_deletions_total',
    help: 'Files deleted from the object store, by kind (upload, output, preview, orphan) and by whom (retention, owner, admin).',
    labelNames: ['kind', 'by'],
    registers,
  });
  const mediaBytes = new Counter({
    name: 'semblance_media_deleted_bytes_total',
    help: 'Bytes of the files deleted from the object store.',
    labelNames: ['kind', 'by'],
    registers,
  });
  const adminRefusals = new Counter({
    name: 'semblance_admin_calls_refused_total',
    help: 'Refused calls of the admin service by reason (missing, unknown, expired, revoked, oidc, role, throttled).',
    labelNames: ['reason'],
    registers,
  });
  storedFigures(registers, database);
  const sessions = createSessionMetrics(registers, (capability, micros) =>
    revenue.inc({ capability }, Number(micros)),
  );
  return {
    sessions,
    timed: (method, handler) => async (request, context) => {
      const end = calls.startTimer({ method });
      inFlight.inc();
      try {
        const response = await handler(request, context);
        end({ code: 'ok' });
        return response;
      } catch (error) {
        end({ code: error instanceof ApiError ? error.code : 'internal_error' });
        throw error;
      } finally {
        inFlight.dec();
      }
    },
    answered: (method) => (seconds, code) => calls.observe({ method, code }, seconds),
    submitted(outcome, capability, holdMicros) {
      submits.inc({ capability, outcome });
      holds.inc({ capability }, Number(holdMicros));
    },
    settled({ capability = 'unknown', status, reason, holdMicros, chargedMicros, shortfallMicros }) {
      settlements.inc({ capability, status, reason: reason ?? '' });
      const fromHold = chargedMicros - shortfallMicros;
      captured.inc(Number(fromHold));
      released.inc(Math.max(0, Number(holdMicros - fromHold)));
      shortfall.inc(Number(shortfallMicros));
      revenue.inc({ capability }, Number(chargedMicros));
    },
    previewCharged: (capability, micros) => revenue.inc({ capability }, Number(micros)),
    adminRefused: (reason) => adminRefusals.inc({ reason }),
    mediaDeleted({ kind, removedBy: by, bytes }) {
      media.inc({ kind, by });
      mediaBytes.inc({ kind, by }, Number(bytes));
    },
    webhook: (event, { status, error }) =>
      webhooks.inc({
        event,
        outcome: error === undefined ? 'delivered' : status === undefined ? 'failed' : 'refused',
      }),
    paid: (kind, seconds) => payments.observe({ kind }, Math.max(0, seconds)),
  };
}
