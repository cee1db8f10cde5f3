import type { Metadata } from '@grpc/grpc-js';
import { ApiError } from '@semblance/common/errors';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { LRUCache } from 'lru-cache';
import { JOB_COLUMNS, type JobRow, toJobRow } from '../jobs/job-row.ts';
import { type Batcher, createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';

/** Trailing metadata with the rest of the caller's rate limit: `limit=60,remaining=59,reset=32`. */
export const RATE_LIMIT_KEY = 'semblance-ratelimit';

const WINDOW_SECONDS = 60;
/**
 * Unknown keys that are remembered, and for how long in ms. A key that was once unknown stays so, because keys are made
 * at random and a revocation is final; forgetting costs one question to the database.
 */
const UNKNOWN_KEYS = 10_000;
const UNKNOWN_MS = 10_000;

export interface Admission {
  readonly accountId: string;
  readonly keyId: string;
  /** Present lifetime of signed links. */
  readonly linkSeconds: number;
  /** The requested job, if it exists and belongs to the caller. */
  readonly job: JobRow | undefined;
}

/** One call that asks for admission. */
export interface Ask {
  readonly caller: Caller | undefined;
  /** A job to be read with it. */
  readonly jobId?: string | undefined;
}

/** The decision about one call, and the rest of its rate limit; `rateLimit` is empty where none applied. */
export type Verdict = { readonly rateLimit: string } & (
  | { readonly admission: Admission; readonly refusal?: undefined }
  | { readonly refusal: ApiError; readonly admission?: undefined }
);

export interface Gate {
  /**
   * Authenticates calls, counts them and reads the jobs they ask for. All waiting calls, of any message, share one
   * statement.
   * @returns a verdict for each, in their order; a refusal is `unauthorized` or `rate_limited`
   * @throws ApiError internal_error
   */
  admitAll(asks: readonly Ask[]): Promise<readonly Verdict[]>;
  /**
   * Does the same for one call. The rest of the limit is set in the trailers whether the call is admitted or
   * refused.
   * @throws ApiError unauthorized, rate_limited, internal_error
   */
  admit(caller: Caller | undefined, trailers: Metadata, jobId?: string): Promise<Admission>;
  /** Authenticates a call and counts nothing. @throws ApiError unauthorized, internal_error */
  check(caller: Caller | undefined): Promise<void>;
}

/** A call with a key that may exist. */
interface Keyed {
  /** SHA-256 of the key in hex. */
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

/** Most calls counted by one statement. */
const MAX_CALLS = 1024;

export function createGate(database: Database): Gate {
  // The calls of one message are one entry, so that a message costs one turn through the batcher.
  const batcher: Batcher<readonly Keyed[], (Counted | undefined)[]> = createBatcher({
    deadlineMs: database.deadlineMs,
    maxSize: MAX_CALLS,
    sizeOf: (calls) => calls.length,
    // While one statement's rows are counted the next is on its way; for the same key it waits there for the lock.
    concurrency: 2,
    async run(messages) {
      const counted = await count(database, messages.flat());
      return messages.map(({ length }) => counted.splice(0, length));
    },
  });

  const unknown = new LRUCache<string, true>({ max: UNKNOWN_KEYS, ttl: UNKNOWN_MS });

  const valid = createBatcher<string, boolean>({
    deadlineMs: database.deadlineMs,
    run: (hashes) => validKeys(database, hashes),
  });

  async function admitAll(asks: readonly Ask[]): Promise<Verdict[]> {
    const hashes = asks.map(({ caller }) => hashOf(caller));
    const keyed: Keyed[] = [];
    const places = asks.map(({ jobId }, i) => {
      const hash = hashes[i];
      return hash === undefined || unknown.has(hash) ? undefined : keyed.push({ hash, jobId }) - 1;
    });
    const counted = keyed.length ? await batcher.submit(keyed) : [];
    for (const [i, { hash }] of keyed.entries()) if (!counted[i]) unknown.set(hash, true);
    return asks.map(({ caller }, i) => {
      const place = places[i];
      return verdictOn(caller?.keySha256.length ?? 0, place === undefined ? undefined : counted[place]);
    });
  }

  return {
    admitAll,
    async admit(caller, trailers, jobId) {
      const [verdict] = await admitAll([{ caller, jobId }]);
      if (!verdict) throw new Error('a call got no verdict');
      if (verdict.rateLimit) trailers.set(RATE_LIMIT_KEY, verdict.rateLimit);
      if (verdict.refusal) throw verdict.refusal;
      return verdict.admission;
    },
    async check(caller) {
      const hash = hashOf(caller);
      if (hash !== undefined && !unknown.has(hash)) {
        if (await valid.submit(hash)) return;
        unknown.set(hash, true);
      }
      throw unauthorized(caller?.keySha256.length ?? 0);
    },
  };
}

/** Returns the hash of a call's key in hex; undefined for what no key can have. */
function hashOf(caller: Caller | undefined): string | undefined {
  return caller?.keySha256.length === HASH_BYTES ? Buffer.from(caller.keySha256).toString('hex') : undefined;
}

function unauthorized(hashLength: number): ApiError {
  const message = hashLength === 0 ? 'An API key is required.' : 'The API key is not known or was revoked.';
  return new ApiError('unauthorized', message);
}

/** Returns for each hash whether it is that of a valid key. */
async function validKeys(database: Database, hashes: readonly string[]): Promise<boolean[]> {
  const rows = await database.fast<{ hash: string }[]>`
    select q.hash from unnest(${hashes}::text[]) as q(hash)
    join api_keys k on k.secret_sha256 = decode(q.hash, 'hex') and k.revoked_at is null`;
  const found = new Set(rows.map(({ hash }) => hash));
  return hashes.map((hash) => found.has(hash));
}

/** Returns those of the keys that are still valid. Counts nothing. @throws Error when the database does not answer */
export async function usableKeys(
  database: Database,
  keyIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await database.fast<{ id: string }[]>`
    select id from api_keys where id = any(${keyIds}::text[]) and revoked_at is null`;
  return new Set(rows.map(({ id }) => id));
}

const HASH_BYTES = 32;

function verdictOn(hashLength: number, counted: Counted | undefined): Verdict {
  if (!counted) return { rateLimit: '', refusal: unauthorized(hashLength) };
  const { admission, limit, place, resetSeconds } = counted;
  const rateLimit = `limit=${limit},remaining=${Math.max(0, limit - place)},reset=${resetSeconds}`;
  if (place <= limit) return { rateLimit, admission };
  const message = `This key may send ${limit} requests a minute. Try again in ${resetSeconds} s.`;
  return { rateLimit, refusal: new ApiError('rate_limited', message) };
}

/**
 * Runs one statement for all calls: it finds keys by hash, advances each window by the number of its calls, and
 * reads the requested jobs. The row of a window is locked while it is counted, so any number of processes share one
 * exact count. Keys are locked in order, so two batches cannot deadlock. A window may have been opened by a
 * statement that began later, but not by 5 s, the longest time of a statement; its rest is at most its length all
 * the same. A window that opens later than that was opened before the clock was set back and would count until the
 * clock reaches it again, so another one replaces it.
 */
async function count(database: Database, asks: readonly Keyed[]): Promise<(Counted | undefined)[]> {
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
        opened_at = case when w.opened_at > excluded.opened_at - ${WINDOW_SECONDS} * interval '1 second'
                          and w.opened_at <= excluded.opened_at + interval '5 seconds'
                         then w.opened_at else excluded.opened_at end,
        used = case when w.opened_at > excluded.opened_at - ${WINDOW_SECONDS} * interval '1 second'
                     and w.opened_at <= excluded.opened_at + interval '5 seconds'
                    then least(w.used, 1000000000) + excluded.used else excluded.used end
      returning key_id, opened_at, used
    )
    select a.slot, a.id as key_id, a.account_id, a.per_minute, c.used, s.link_seconds,
           least(${WINDOW_SECONDS}, greatest(1, ceil(extract(epoch from
             c.opened_at + ${WINDOW_SECONDS} * interval '1 second' - statement_timestamp()))))::int as reset,
           ${JOB_COLUMNS}
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
