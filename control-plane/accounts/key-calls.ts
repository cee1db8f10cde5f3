import { JOB_COLUMNS, type JobRow, toJobRow } from '../jobs/job-row.ts';
import type { Database } from '../storage/database.ts';

/** Statements that judge the keys of calls. */

const WINDOW_SECONDS = 60;

export interface Admission {
  readonly accountId: string;
  readonly keyId: string;
  /** Present lifetime of signed links. */
  readonly linkSeconds: number;
  /** The requested job, if it exists and belongs to the caller. */
  readonly job: JobRow | undefined;
}

/** A call with a key that may exist. */
export interface Keyed {
  /** SHA-256 of the key in hex. */
  readonly hash: string;
  readonly jobId: string | undefined;
  /** Where the call comes from; null: unknown. */
  readonly address: string | null;
}

/** Why a key that exists is not taken: it has expired, or is not for the address of the call. */
export type Fault = 'expired' | 'address';

export interface NotTaken {
  readonly fault: Fault;
  readonly keyId: string;
}

export interface Counted {
  readonly fault?: undefined;
  readonly scopes: readonly string[];
  readonly admission: Admission;
  readonly limit: number;
  /** This call's place in the window, from 1. */
  readonly place: number;
  readonly resetSeconds: number;
}

type Row = {
  slot: number;
  key_id: string;
  fault: Fault | null;
  account_id: string;
  per_minute: number;
  scopes: string[];
  /** Of all calls with the key in the statement; null with a fault, like the next two. */
  calls: number;
  used: number;
  reset: number;
  link_seconds: number;
  id: string | null;
};

export interface Found {
  readonly key_id: string;
  readonly fault: Fault | null;
  readonly scopes: string[];
}

/** Returns for each call its key, if there is one that was not revoked. */
export async function findKeys(database: Database, calls: readonly Keyed[]): Promise<(Found | undefined)[]> {
  const rows = await database.fast<(Found & { place: number })[]>`
    select q.place, k.id as key_id, key_fault(k, q.address::inet) as fault, k.scopes
    from unnest(${calls.map((_, i) => i)}::int[], ${calls.map(({ hash }) => hash)}::text[],
                ${calls.map(({ address }) => address)}::text[]) as q(place, hash, address)
    join api_keys k on k.secret_sha256 = decode(q.hash, 'hex') and k.revoked_at is null`;
  const found = new Map(rows.map((row) => [row.place, row]));
  return calls.map((_, i) => found.get(i));
}

/**
 * Runs one statement for all calls: it finds keys by hash, advances each window by the number of its calls, and
 * reads the requested jobs. Calls with a key that is not taken count for nothing, so they use nothing up. The row of a window is locked while it is counted, so any number of processes share one
 * exact count. Keys are locked in order, so two batches cannot deadlock. A window may have been opened by a
 * statement that began later, but not by 5 s, the longest time of a statement; its rest is at most its length all
 * the same. A window that opens later than that was opened before the clock was set back and would count until the
 * clock reaches it again, so another one replaces it.
 */
export async function countCalls(
  database: Database,
  asks: readonly Keyed[],
): Promise<(Counted | NotTaken | undefined)[]> {
  interface Slot {
    readonly index: number;
    readonly hash: string;
    readonly address: string | null;
    calls: number;
    readonly jobs: Set<string>;
  }
  const slots = new Map<string, Slot>();
  const slotOf = ({ hash, address }: Keyed) => `${hash} ${address}`;
  for (const ask of asks) {
    const { hash, address, jobId } = ask;
    const name = slotOf(ask);
    let slot = slots.get(name);
    if (!slot) {
      slot = { index: slots.size, hash, address, calls: 0, jobs: new Set() };
      slots.set(name, slot);
    }
    slot.calls++;
    if (jobId !== undefined) slot.jobs.add(jobId);
  }
  const keys = [...slots.values()];
  const reads = keys.flatMap((slot) => [...slot.jobs].map((job) => ({ slot: slot.index, job })));
  const rows = await database.fast<Row[]>`
    with asked as (
      select q.slot, q.calls, k.id, k.account_id, k.per_minute, k.scopes, key_fault(k, q.address::inet) as fault
      from unnest(${keys.map(({ hash }) => hash)}::text[], ${keys.map(({ index }) => index)}::int[],
                  ${keys.map(({ calls }) => calls)}::int[], ${keys.map(({ address }) => address)}::text[])
        as q(hash, slot, calls, address)
      join api_keys k on k.secret_sha256 = decode(q.hash, 'hex') and k.revoked_at is null
    ), taken as (
      select id, sum(calls)::int as calls from asked where fault is null group by id
    ), counted as (
      insert into rate_windows as w (key_id, opened_at, used)
      select id, statement_timestamp(), calls from taken order by id
      on conflict (key_id) do update set
        opened_at = case when w.opened_at > excluded.opened_at - ${WINDOW_SECONDS} * interval '1 second'
                          and w.opened_at <= excluded.opened_at + interval '5 seconds'
                         then w.opened_at else excluded.opened_at end,
        used = case when w.opened_at > excluded.opened_at - ${WINDOW_SECONDS} * interval '1 second'
                     and w.opened_at <= excluded.opened_at + interval '5 seconds'
                    then least(w.used, 1000000000) + excluded.used else excluded.used end
      returning key_id, opened_at, used
    )
    select a.slot, a.id as key_id, a.fault, a.account_id, a.per_minute, a.scopes, t.calls, c.used, s.link_seconds,
           least(${WINDOW_SECONDS}, greatest(1, ceil(extract(epoch from
             c.opened_at + ${WINDOW_SECONDS} * interval '1 second' - statement_timestamp()))))::int as reset,
           ${JOB_COLUMNS}
    from asked a
    left join taken t on t.id = a.id and a.fault is null
    left join counted c on c.key_id = t.id
    cross join settings s
    left join unnest(${reads.map(({ slot }) => slot)}::int[], ${reads.map(({ job }) => job)}::text[]) as r(slot, job)
      on r.slot = a.slot and a.fault is null
    left join jobs j on j.id = r.job and j.account_id = a.account_id`;

  const known = new Map<number, Row>();
  const jobs = new Map<string, JobRow>();
  for (const row of rows) {
    known.set(row.slot, row);
    if (row.id !== null) jobs.set(`${row.slot} ${row.id}`, toJobRow(row));
  }
  const counts = new Map<string, number>();
  return asks.map((ask) => {
    const { jobId } = ask;
    const slot = slots.get(slotOf(ask));
    const row = slot && known.get(slot.index);
    if (!row) return undefined;
    if (row.fault) return { fault: row.fault, keyId: row.key_id };
    const before = counts.get(row.key_id) ?? 0;
    counts.set(row.key_id, before + 1);
    return {
      scopes: row.scopes,
      admission: {
        accountId: row.account_id,
        keyId: row.key_id,
        linkSeconds: row.link_seconds,
        job: jobId === undefined ? undefined : jobs.get(`${row.slot} ${jobId}`),
      },
      limit: row.per_minute,
      place: row.used - row.calls + before + 1,
      resetSeconds: row.reset,
    };
  });
}
