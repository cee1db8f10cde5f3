import { ApiError } from '#common/errors.ts';
import { type JobRow, toJobRow } from '../jobs/job-row.ts';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { isStorable, type Sql } from '../storage/sql.ts';
import type { Answer } from './sender.ts';

export const MAX_ATTEMPTS = 6;

/** A delivery that this process may try now. */
export interface Claimed {
  readonly id: string;
  readonly event: string;
  readonly url: string;
  readonly origin: string;
  /** Attempts made before. */
  readonly attempts: number;
  readonly job: JobRow;
  readonly linkSeconds: number;
  /** That sign it, the newest first; none when the account never asked for its secret. */
  readonly secrets: readonly string[];
}

export interface Result {
  readonly delivery: Claimed;
  readonly at: Date;
  readonly answer: Answer;
  /** Pause before the next attempt, should there be one. */
  readonly pauseMs: number;
}

interface ClaimRow {
  readonly delivery_id: string;
  readonly event: string;
  readonly url: string;
  readonly origin: string;
  readonly attempts: number;
  readonly job_id: string;
  readonly link_seconds: number;
  readonly secrets: string[] | null;
}

/** Deliveries as stored: claimed for a while by the process that tries them, each attempt recorded. */
export function createDeliveries(database: Database, leaseSeconds: number) {
  const { sql } = database;

  /** Those of the jobs that are due, or with `jobs` null any that are, but of none of the busy origins. */
  async function claim(
    jobs: readonly string[] | null,
    busy: readonly string[],
    limit: number,
  ): Promise<Claimed[]> {
    const rows = await sql<ClaimRow[]>`
      with claimed as (
        update deliveries set leased_until = now() + ${leaseSeconds} * interval '1 second'
        where id in (
          select d.id from deliveries d
          where d.state = 'pending' and d.due_at <= now() and (d.leased_until is null or d.leased_until < now())
            and (${jobs}::text[] is null or d.job_id = any(${jobs}::text[])) and d.origin <> all(${busy}::text[])
          order by d.due_at limit ${limit} for update skip locked
        ) returning *
      )
      select c.id as delivery_id, c.event, c.url, c.origin, c.attempts, c.job_id, s.link_seconds,
             (select array_agg(w.secret order by w.id desc) from webhook_secrets w
              where w.account_id = c.account_id and (w.retires_at is null or w.retires_at > now())) as secrets,
             j.id, j.status, j.output_key, j.charged_micros, j.error_code, j.error_message, j.settled_at
      from claimed c join jobs j on j.id = c.job_id cross join settings s`;
    return rows.map((row) => ({
      id: row.delivery_id,
      event: row.event,
      url: row.url,
      origin: row.origin,
      attempts: row.attempts,
      job: toJobRow(row as unknown as Record<string, unknown>),
      linkSeconds: row.link_seconds,
      secrets: row.secrets ?? [],
    }));
  }

  const claims = createBatcher<string, Claimed | undefined>({
    async run(jobs) {
      const claimed = await claim([...new Set(jobs)], [], jobs.length);
      const byJob = new Map(claimed.map((delivery) => [delivery.job.id, delivery]));
      return jobs.map((job) => {
        const delivery = byJob.get(job);
        byJob.delete(job);
        return delivery;
      });
    },
  });

  const records = createBatcher<Result, true>({
    async run(results) {
      const rows = results.map(({ delivery, at, answer, pauseMs }) => ({
        id: delivery.id,
        at: at.toISOString(),
        status: answer.status ?? null,
        error: answer.error?.replaceAll('\0', '').toWellFormed() ?? null,
        milliseconds: answer.milliseconds,
        done: answer.error === undefined,
        pause: pauseMs,
      }));
      await sql`
        with result as (
          select * from jsonb_to_recordset(${sql.json(rows)}::jsonb)
            as r(id text, at timestamptz, status int, error text, milliseconds int, done boolean, pause float8)
        ), logged as (
          insert into delivery_attempts (delivery_id, at, http_status, error, milliseconds)
          select id, at, status, error, milliseconds from result
        )
        update deliveries d set
          attempts = d.attempts + 1, leased_until = null,
          state = case when r.done then 'delivered' when d.attempts + 1 >= ${MAX_ATTEMPTS} then 'abandoned' else 'pending' end,
          ended_at = case when r.done or d.attempts + 1 >= ${MAX_ATTEMPTS} then now() end,
          due_at = now() + r.pause * interval '1 millisecond'
        from result r where d.id = r.id and d.state = 'pending'`;
      return results.map(() => true);
    },
  });

  return {
    /** The delivery of one job, if it has one that is due and nobody is trying. */
    claimOf: (jobId: string) => claims.submit(jobId),
    claimDue: (busy: readonly string[], limit: number) => claim(null, busy, limit),
    record: (result: Result) => records.submit(result),
    /** Gives claims back untried. */
    async release(ids: readonly string[]) {
      await sql`update deliveries set leased_until = null where id = any(${ids}::text[]) and state = 'pending'`;
    },
  };
}

export type Deliveries = ReturnType<typeof createDeliveries>;

export interface DeliveryView {
  readonly id: string;
  readonly jobId: string;
  readonly event: string;
  readonly state: string;
  readonly attempts: readonly { readonly at: string; readonly status?: number; readonly error?: string }[];
}

interface ViewRow {
  readonly id: string;
  readonly job_id: string;
  readonly event: string;
  readonly state: string;
  readonly attempts: { at: string; status: number | null; error: string | null }[] | null;
}

/** Deliveries with every attempt, the newest first. */
export async function listDeliveries(
  sql: Sql,
  of: { accountId: string } | { deliveryId: string },
): Promise<DeliveryView[]> {
  const account = 'accountId' in of ? of.accountId : null;
  const delivery = 'deliveryId' in of ? of.deliveryId : null;
  if (!isStorable(account ?? delivery ?? '')) return [];
  const rows = await sql<ViewRow[]>`
    select d.id, d.job_id, d.event, d.state,
           (select jsonb_agg(jsonb_build_object('at', a.at, 'status', a.http_status, 'error', a.error) order by a.id)
            from delivery_attempts a where a.delivery_id = d.id) as attempts
    from deliveries d
    where (${account}::text is null or d.account_id = ${account}) and (${delivery}::text is null or d.id = ${delivery})
    order by d.id desc limit 500`;
  return rows.map((row) => ({
    id: row.id,
    jobId: row.job_id,
    event: row.event,
    state: row.state,
    attempts: (row.attempts ?? []).map(({ at, status, error }) => ({
      at: new Date(at).toISOString(),
      status: status ?? undefined,
      error: error ?? undefined,
    })),
  }));
}

/** Has a delivery tried again from the first attempt on, under the same id. @throws ApiError not_found */
export async function replayDelivery(sql: Sql, deliveryId: string): Promise<DeliveryView> {
  if (isStorable(deliveryId)) {
    await sql`
      update deliveries set state = 'pending', attempts = 0, due_at = now(), leased_until = null, ended_at = null
      where id = ${deliveryId} and state <> 'pending'`;
    await sql`update deliveries set due_at = now(), attempts = 0 where id = ${deliveryId} and leased_until is null`;
  }
  const [view] = await listDeliveries(sql, { deliveryId });
  if (!view)
    throw new ApiError('not_found', `There is no delivery ${JSON.stringify(deliveryId.slice(0, 80))}.`);
  return view;
}
