import { ApiError } from '@semblance/common/errors';
import { JOB_COLUMNS, type JobRow, toJobRow } from '../jobs/job-row.ts';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { type DeliveryView, listDeliveries } from './list-deliveries.ts';
import type { Answer } from './sender.ts';
import type { SigningSecrets } from './signature.ts';

const MAX_ATTEMPTS = 6;
/** Days of nothing but failures after which an endpoint is disabled, when another delivery has used up its attempts. */
const FAILING_DAYS = 5;

/** Returns the id of a job's delivery, which is always the same. See owe_delivery in the migrations. */
export function deliveryIdOf(jobId: string): string {
  return jobId.replace('job-', 'dlv-');
}

/** A delivery that this process may try now. */
export interface Claimed {
  readonly id: string;
  readonly accountId: string;
  readonly event: string;
  readonly url: string;
  readonly origin: string;
  /** Number of earlier attempts. */
  readonly attempts: number;
  /** What it is about: the job that has ended, or the data of another event. */
  readonly about: { readonly job: JobRow } | { readonly data: unknown };
  readonly linkSeconds: number;
  readonly secrets: SigningSecrets;
}

export interface Result {
  readonly delivery: Claimed;
  readonly at: Date;
  readonly answer: Answer;
  /** Pause before a further attempt. */
  readonly pauseMs: number;
}

/** A delivery that can be claimed. */
export interface Due {
  readonly id: string;
  readonly origin: string;
  readonly accountId: string;
}

interface ClaimRow {
  readonly delivery_id: string;
  readonly account_id: string;
  readonly event: string;
  readonly url: string;
  readonly origin: string;
  readonly attempts: number;
  readonly data: unknown;
  readonly link_seconds: number;
  readonly secrets: string[] | null;
  readonly next_secret: string | null;
}

/** Manages stored deliveries: the process that tries them claims them for a while, and each attempt is recorded. */
export function createDeliveries(database: Database, leaseSeconds: number) {
  const { sql, deadlineMs } = database;

  /**
   * Claims those of the given deliveries that are due and that nobody tries; they are this process's until the
   * lease expires. Those to an endpoint that is no longer enabled end: its transaction may have missed one that another
   * owed at the same time.
   */
  async function claim(ids: readonly string[]): Promise<Claimed[]> {
    if (ids.length === 0) return [];
    // A claim lost in a crash of the server is made again, so its commit need not wait for the disk.
    const rows = await sql<ClaimRow[]>`
      with due as (
        select d.id, coalesce(e.enabled, true) as wanted
        from deliveries d left join webhook_endpoints e on e.id = d.endpoint_id where d.id = any(${ids}::text[])
      ), ended as (
        update deliveries d set state = 'abandoned', ended_at = now(), leased_until = null
        from due where d.id = due.id and not due.wanted and d.state = 'pending'
          and (d.leased_until is null or d.leased_until < now())
      ), claimed as (
        update deliveries d set leased_until = now() + ${leaseSeconds} * interval '1 second'
        from due, set_config('synchronous_commit', 'off', true)
        where d.id = any(${ids}::text[]) and d.id = due.id and due.wanted and d.state = 'pending' and d.due_at <= now()
          and (d.leased_until is null or d.leased_until < now())
        returning d.*
      )
      select c.id as delivery_id, c.account_id, c.event, c.url, c.origin, c.attempts, c.data, s.link_seconds,
             (select array_agg(w.secret order by w.id desc) from webhook_secrets w
              where w.account_id = c.account_id and (w.retires_at is null or w.retires_at > now())) as secrets,
             (select n.secret from webhook_next_secrets n where n.account_id = c.account_id) as next_secret,
             ${JOB_COLUMNS}
      from claimed c left join lateral (select * from jobs where id = c.job_id offset 0) j on true cross join settings s`;
    return rows.map((row) => ({
      id: row.delivery_id,
      accountId: row.account_id,
      event: row.event,
      url: row.url,
      origin: row.origin,
      attempts: row.attempts,
      about:
        row.data === null ? { job: toJobRow(row as unknown as Record<string, unknown>) } : { data: row.data },
      linkSeconds: row.link_seconds,
      secrets: { current: row.secrets ?? [], next: row.next_secret ?? undefined },
    }));
  }

  /**
   * Returns due deliveries of all origins except the closed ones: of each origin as many as could be tried at once,
   * and the first of each account and origin before the second of any.
   */
  async function findDue(closed: readonly string[], perOrigin: number, limit: number): Promise<Due[]> {
    return sql<Due[]>`
      with recursive origins as (
        (select min(origin) as origin from deliveries where state = 'pending')
        union all
        select (select min(d.origin) from deliveries d where d.state = 'pending' and d.origin > o.origin)
        from origins o where o.origin is not null
      ), due as (
        select d.* from origins o cross join lateral (
          select d.id, d.origin, d.account_id, d.due_at, row_number() over (order by d.due_at) as place from deliveries d
          where d.state = 'pending' and d.origin = o.origin and d.due_at <= now()
            and (d.leased_until is null or d.leased_until < now())
          order by d.due_at limit ${perOrigin}
        ) d where o.origin <> all(${closed}::text[])
      )
      select id, origin, account_id as "accountId" from due
      order by row_number() over (partition by account_id order by place, due_at), due_at limit ${limit}`;
  }

  const claims = createBatcher<string, Claimed | undefined>({
    deadlineMs,
    concurrency: 2,
    async run(ids) {
      const claimed = await claim([...new Set(ids)]);
      const byId = new Map(claimed.map((delivery) => [delivery.id, delivery]));
      return ids.map((id) => {
        const delivery = byId.get(id);
        byId.delete(id);
        return delivery;
      });
    },
  });

  const records = createBatcher<Result, true>({
    deadlineMs,
    concurrency: 2,
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
        ), updated as (
          update deliveries d set
            attempts = d.attempts + 1, leased_until = null,
            state = case when r.done then 'delivered' when d.attempts + 1 >= ${MAX_ATTEMPTS} then 'abandoned' else 'pending' end,
            ended_at = case when r.done or d.attempts + 1 >= ${MAX_ATTEMPTS} then now() end,
            due_at = now() + r.pause * interval '1 millisecond'
          from result r where d.id = r.id and d.id = any(${rows.map(({ id }) => id)}::text[]) and d.state = 'pending'
        ), tried as (
          select e.id, bool_or(r.done) as succeeded, min(r.at) as at, bool_or(d.attempts + 1 >= ${MAX_ATTEMPTS}) as used_up
          from result r join deliveries d on d.id = r.id join webhook_endpoints e on e.id = d.endpoint_id and e.url = d.url
          group by e.id
        ), changed as (
          select e.id, t.succeeded, t.at,
                 t.used_up and not t.succeeded
                   and coalesce(e.failing_since < t.at - ${FAILING_DAYS} * interval '1 day', false) as gives_up
          from webhook_endpoints e join tried t on t.id = e.id
          where e.enabled and (e.failing_since is null) <> t.succeeded
             or e.enabled and t.used_up and not t.succeeded and e.failing_since < t.at - ${FAILING_DAYS} * interval '1 day'
          order by e.id for no key update of e
        ), judged as (
          update webhook_endpoints e set
            failing_since = case when not c.succeeded then coalesce(e.failing_since, c.at) end,
            enabled = not c.gives_up, disabled_by = case when c.gives_up then 'failing' end
          from changed c where e.id = c.id
        )
        insert into delivery_attempts (delivery_id, at, http_status, error, milliseconds)
        select id, at, status, error, milliseconds from result`;
      return results.map(() => true);
    },
  });

  const releases = createBatcher<string, true>({
    deadlineMs,
    async run(ids) {
      await sql`update deliveries set leased_until = null where id = any(${ids}::text[]) and state = 'pending'`;
      return ids.map(() => true);
    },
  });

  return {
    findDue,
    claim,
    /** Returns the delivery, if it is due and nobody is trying it. */
    claimOne: (id: string) => claims.submit(id),
    record: (result: Result) => records.submit(result),
    /** Releases a claim without an attempt. */
    release: (id: string) => releases.submit(id),
  };
}

/** Restarts a delivery from the first attempt, under the same id. @throws ApiError not_found */
export async function replayDelivery(sql: Transaction, deliveryId: string): Promise<DeliveryView> {
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
