import type { Metadata } from '@grpc/grpc-js';
import { ApiError } from '#common/errors.ts';
import type { Caller } from '#proto/semblance/control/v1/control.ts';
import { type JobRow, toJobRow } from '../jobs/job-row.ts';
import { type Batcher, createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';

/** Trailing metadata that says what of the caller's rate limit is left: `limit=60,remaining=59,reset=32`. */
export const RATE_LIMIT_KEY = 'semblance-ratelimit';

export const WINDOW_SECONDS = 60;

export interface Admission {
  readonly accountId: string;
  readonly keyId: string;
  /** Lifetime of signed links, as set at this moment. */
  readonly linkSeconds: number;
  /** The job asked for, when it exists and is the caller's. */
  readonly job: JobRow | undefined;
}

export interface Gate {
  /**
   * Authenticates one call, counts it and, when asked, reads a job of the caller: all calls that are waiting share one
   * statement. What is left of the limit is set in the trailers whether the call is admitted or refused by it.
   * @throws ApiError unauthorized, rate_limited, internal_error
   */
  admit(caller: Caller | undefined, trailers: Metadata, jobId?: string): Promise<Admission>;
}

interface Ask {
  readonly hash: string;
  readonly jobId: string | undefined;
}

interface Counted {
  readonly admission: Admission;
  readonly limit: number;
  /** This call's place in the window, from 1. */
  readonly place: number;
  readonly resetSeconds: number;
}

type Row = {
  slot: number;
  key_id: string;
  account_id: string;
  per_minute: number;
  used: number;
  reset: number;
  link_seconds: number;
  id: string | null;
};

export function createGate(database: Database): Gate {
  const batcher: Batcher<Ask, Counted | undefined> = createBatcher({ run: (asks) => count(database, asks) });
  return {
    async admit(caller, trailers, jobId) {
      const hash = caller?.keySha256;
      if (!hash || hash.length === 0) throw new ApiError('unauthorized', 'An API key is required.');
      if (hash.length !== 32) throw unknownKey();
      const counted = await batcher.submit({ hash: Buffer.from(hash).toString('hex'), jobId });
      if (!counted) throw unknownKey();
      const { limit, place, resetSeconds } = counted;
      const remaining = Math.max(0, limit - place);
      trailers.set(RATE_LIMIT_KEY, `limit=${limit},remaining=${remaining},reset=${resetSeconds}`);
      if (place > limit) {
        throw new ApiError(
          'rate_limited',
          `This key may send ${limit} requests a minute. Try again in ${resetSeconds} s.`,
        );
      }
      return counted.admission;
    },
  };
}

function unknownKey(): ApiError {
  return new ApiError('unauthorized', 'The API key is not known or was revoked.');
}

/**
 * One statement for all: key by hash, its window moved on by as many calls as it has here, the jobs they ask for. The
 * row of the window is locked while it is counted, so that any number of processes share one exact count; keys are
 * locked in order, so that two batches cannot wait for each other.
 */
async function count(database: Database, asks: readonly Ask[]): Promise<(Counted | undefined)[]> {
  const slots = new Map<string, { readonly index: number; calls: number; readonly jobs: Set<string> }>();
  for (const { hash, jobId } of asks) {
    let slot = slots.get(hash);
    if (!slot) {
      slot = { index: slots.size, calls: 0, jobs: new Set() };
      slots.set(hash, slot);
    }
    slot.calls++;
    if (jobId !== undefined) slot.jobs.add(jobId);
  }
  const keys = [...slots.entries()];
  const reads = keys.flatMap(([, slot]) => [...slot.jobs].map((job) => ({ slot: slot.index, job })));
  const rows = await database.fast<Row[]>`
    with asked as (
      select q.slot, q.calls, k.id, k.account_id, k.per_minute
      from unnest(${keys.map(([hash]) => hash)}::text[], ${keys.map(([, slot]) => slot.index)}::int[],
                  ${keys.map(([, slot]) => slot.calls)}::int[]) as q(hash, slot, calls)
      join api_keys k on k.secret_sha256 = decode(q.hash, 'hex') and k.revoked_at is null
    ), counted as (
      insert into rate_windows as w (key_id, opened_at, used)
      select id, statement_timestamp(), calls from asked order by id
      on conflict (key_id) do update set
        opened_at = case when w.opened_at + ${WINDOW_SECONDS} * interval '1 second' <= excluded.opened_at
                         then excluded.opened_at else w.opened_at end,
        used = case when w.opened_at + ${WINDOW_SECONDS} * interval '1 second' <= excluded.opened_at
                    then excluded.used else least(w.used, 1000000000) + excluded.used end
      returning key_id, opened_at, used
    )
    select a.slot, a.id as key_id, a.account_id, a.per_minute, c.used, s.link_seconds,
           greatest(1, ceil(extract(epoch from c.opened_at + ${WINDOW_SECONDS} * interval '1 second' - statement_timestamp())))::int as reset,
           j.id, j.status, j.output_key, j.charged_micros, j.error_code, j.error_message, j.settled_at
    from asked a
    join counted c on c.key_id = a.id
    cross join settings s
    left join unnest(${reads.map(({ slot }) => slot)}::int[], ${reads.map(({ job }) => job)}::text[]) as r(slot, job) on r.slot = a.slot
    left join jobs j on j.id = r.job and j.account_id = a.account_id`;

  const known = new Map<number, Row>();
  const jobs = new Map<string, JobRow>();
  for (const row of rows) {
    known.set(row.slot, row);
    if (row.id !== null) jobs.set(`${row.slot} ${row.id}`, toJobRow(row));
  }
  const counts = new Map<number, number>();
  return asks.map(({ hash, jobId }) => {
    const slot = slots.get(hash);
    const row = slot && known.get(slot.index);
    if (!row) return undefined;
    const before = counts.get(row.slot) ?? 0;
    counts.set(row.slot, before + 1);
    return {
      admission: {
        accountId: row.account_id,
        keyId: row.key_id,
        linkSeconds: row.link_seconds,
        job: jobId === undefined ? undefined : jobs.get(`${row.slot} ${jobId}`),
      },
      limit: row.per_minute,
      place: row.used - slot.calls + before + 1,
      resetSeconds: row.reset,
    };
  });
}
