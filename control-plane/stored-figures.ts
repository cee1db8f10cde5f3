import { Gauge, type Registry } from 'prom-client';
import type { Database } from './storage/database.ts';

interface Figures {
  readonly held: bigint;
  readonly queued: number;
  readonly processing: number;
  readonly renderjobs: number;
  readonly events: number;
  readonly owed_since: number;
  readonly webhooks: number;
  readonly webhooks_late: number;
  readonly removals: number;
  readonly faults: number | null;
  readonly below_zero: number | null;
  readonly audited_at: number | null;
  readonly reserved: bigint;
  readonly opening: number;
  readonly open: number;
  readonly connected: number;
}

/** Registers metrics that are read from the database at each scrape; absent while it does not answer. */
export function storedFigures(registers: Registry[], database: Database): void {
  /*
   * One reading for all metrics of a scrape. Each waits for it; otherwise it would show the value of the scrape
   * before, and 0 at the first, as if the books had not been audited since 1970.
   */
  let reading: Promise<void> | undefined;
  const collect = () => {
    reading ??= refresh().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  const gauge = <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
    new Gauge<L>({ name, help, labelNames, registers, collect });
  const held = gauge('semblance_money_held_micros', 'Sum of all pending holds, in micro-dollars.');
  const reserved = gauge(
    'semblance_money_reserved_micros',
    'Sum of what open sessions have set aside, in micro-dollars.',
  );
  const sessions = gauge('semblance_sessions_in_flight', 'Sessions that have not ended, by state.', [
    'state',
  ]);
  const jobs = gauge('semblance_jobs_in_flight', 'Jobs that have not ended, by status.', ['status']);
  const owed = gauge('semblance_outbox_owed', 'Debts of the outbox, by kind.', ['kind']);
  const backlog = gauge('semblance_webhook_backlog', 'Webhooks that are not delivered and not given up.');
  const late = gauge(
    'semblance_webhook_backlog_oldest_seconds',
    'How long the webhook that has been due for longest has been due.',
  );
  const removals = gauge(
    'semblance_media_removals_owed',
    'Files out of use, not yet deleted from the store.',
  );
  const faults = gauge('semblance_ledger_faults', 'Accounts whose books did not agree when last recomputed.');
  const belowZero = gauge(
    'semblance_ledger_accounts_below_zero',
    'Accounts whose balance was below zero when the books were last recomputed.',
  );
  const auditedAt = gauge(
    'semblance_ledger_audited_timestamp_seconds',
    'When the books of all accounts were last recomputed.',
  );
  const oldest = gauge('semblance_outbox_oldest_seconds', 'Age of the oldest debt of the outbox.');
  const single = [held, reserved, backlog, late, removals, faults, belowZero, auditedAt, oldest];

  async function refresh(): Promise<void> {
    const [row] = await read(database).catch(() => []);
    if (!row) {
      for (const figure of single) figure.remove();
      for (const figure of [jobs, sessions, owed]) figure.reset();
      return;
    }
    held.set(Number(row.held));
    reserved.set(Number(row.reserved));
    for (const state of ['opening', 'open', 'connected'] as const) sessions.set({ state }, row[state]);
    jobs.set({ status: 'queued' }, row.queued);
    jobs.set({ status: 'processing' }, row.processing);
    owed.set({ kind: 'renderjob' }, row.renderjobs);
    owed.set({ kind: 'event' }, row.events);
    oldest.set(row.owed_since);
    backlog.set(row.webhooks);
    late.set(row.webhooks_late);
    removals.set(row.removals);
    if (row.audited_at === null) {
      for (const figure of [faults, belowZero, auditedAt]) figure.remove();
      return;
    }
    faults.set(row.faults ?? 0);
    belowZero.set(row.below_zero ?? 0);
    auditedAt.set(row.audited_at);
  }
}

function read({ fast }: Database): Promise<Figures[]> {
  return fast<Figures[]>`
    select j.held, j.queued, j.processing, o.renderjobs, o.events, o.owed_since, w.webhooks, w.webhooks_late, m.removals,
           l.reserved, l.opening, l.open, l.connected,
           (c.result ->> 'faults')::int as faults, (c.result ->> 'below_zero')::int as below_zero,
           extract(epoch from c.finished_at)::float8 as audited_at
    from (select coalesce(sum(hold_micros), 0)::bigint as held,
                 count(*) filter (where status = 'queued')::int as queued,
                 count(*) filter (where status = 'processing')::int as processing
          from jobs where settled_at is null) j,
         (select coalesce(sum(max_cost_micros), 0)::bigint as reserved,
                 count(*) filter (where state = 'opening')::int as opening,
                 count(*) filter (where state = 'open')::int as open,
                 count(*) filter (where state = 'connected')::int as connected
          from sessions where ended_at is null) l,
         (select count(*) filter (where kind = 'renderjob')::int as renderjobs,
                 count(*) filter (where kind = 'event')::int as events,
                 coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as owed_since
          from outbox) o,
         (select count(*)::int as webhooks,
                 greatest(0, coalesce(extract(epoch from now() - min(due_at)), 0))::float8 as webhooks_late
          from deliveries where state = 'pending') w,
         (select count(*)::int as removals from media_removals) m
         left join chores c on c.name = 'books'`;
}
