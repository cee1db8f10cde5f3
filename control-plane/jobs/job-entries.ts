import { ApiError } from '@semblance/common/errors';
import { idAt } from '@semblance/common/ids';
import { MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import { isCapability } from '@semblance/engine-api/capabilities';
import type { JobEntry, ListJobsRequest } from '@semblance/proto/semblance/admin/v1/admin';
import { requireAccount } from '../accounts/accounts.ts';
import { limitOf } from '../audit/audit.ts';
import { timestampOf } from '../storage/moments.ts';
import { type Sql, SqlText } from '../storage/sql.ts';
import type { JobHistory } from './history.ts';
import { isJobId } from './job-row.ts';

const STATUSES = ['queued', 'processing', 'succeeded', 'failed'];
/** Most by which the clock that makes ids may differ from that of the database, in ms. */
const CLOCKS_MS = 3_600_000;

/** It sorts after every id of a job, in any collation. */
const LAST_ID = `job-${'z'.repeat(27)}`;

/** Columns of `jobs j` for {@link jobEntry}; `h` is its row of job_histories. */
export const ENTRY_COLUMNS = new SqlText(
  `j.id, j.account_id, j.capability, j.status, j.created_at, j.settled_at, j.error_code, j.error_message, j.reason,
   j.hold_micros, j.charged_micros, h.history`,
);

export interface EntryRow {
  readonly id: string;
  readonly account_id: string;
  readonly capability: string;
  readonly status: string;
  readonly created_at: Date;
  readonly settled_at: Date | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly reason: string | null;
  readonly hold_micros: bigint;
  readonly charged_micros: bigint | null;
  readonly history: JobHistory | null;
}

/** Returns the course of a job whose RenderJob is still there. */
export type CourseOf = (jobId: string) => JobHistory | undefined;

interface Filter {
  readonly account: string;
  readonly status: string | null;
  readonly capability: string | null;
  readonly error: string | null;
  readonly from: string;
  readonly to: string;
  readonly before: string | null;
  /** Ids from, and below. */
  readonly first: string;
  readonly past: string;
  readonly limit: number;
}

/** Lists jobs, newest first. @throws ApiError invalid_input, not_found */
export async function listJobs(sql: Sql, asked: ListJobsRequest, courseOf: CourseOf): Promise<JobEntry[]> {
  const filter = checked(asked);
  if (asked.accountId !== undefined) await requireAccount(sql, asked.accountId);
  const found = await idsOf(sql, filter, asked.accountId !== undefined);
  const rows = await sql<EntryRow[]>`
    select ${ENTRY_COLUMNS} from jobs j left join job_histories h on h.job_id = j.id
    where j.id = any(${found.map(({ id }) => id)}::text[]) order by j.id desc`;
  return rows.map((row) => jobEntry(row, courseOf));
}

/**
 * Each way has the index that it needs: that of the account, that of failed jobs, and otherwise the ids, which grow with
 * time.
 */
function idsOf(sql: Sql, filter: Filter, ofAccount: boolean): Promise<{ id: string }[]> {
  const { account, status, capability, error, from, to, before, first, past, limit } = filter;
  if (ofAccount)
    return sql<{ id: string }[]>`
      select id from jobs where account_id = ${account} and created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz
        and (${status}::text is null or status = ${status}) and (${capability}::text is null or capability = ${capability})
        and (${error}::text is null or error_code = ${error})
        and (${before}::text is null or
             (id < ${before} and created_at <= coalesce((select b.created_at from jobs b where b.id = ${before}), 'infinity')))
      order by created_at desc, id desc limit ${limit}`;
  if (status === 'failed')
    return sql<{ id: string }[]>`
      select id from jobs where status = 'failed' and id >= ${first} and id < ${past}
        and created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz
        and (${capability}::text is null or capability = ${capability}) and (${error}::text is null or error_code = ${error})
      order by id desc limit ${limit}`;
  return sql<{ id: string }[]>`
    select id from jobs where id >= ${first} and id < ${past}
      and created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz
      and (${status}::text is null or status = ${status}) and (${capability}::text is null or capability = ${capability})
    order by id desc limit ${limit}`;
}

/** @throws ApiError invalid_input */
function checked(asked: ListJobsRequest): Filter {
  const { capability = null, errorCode = null, before = null } = asked;
  const status = asked.status ?? (errorCode === null ? null : 'failed');
  if (status !== null && !STATUSES.includes(status))
    throw new ApiError('invalid_input', `A status is one of ${STATUSES.join(', ')}.`);
  if (capability !== null && !isCapability(capability))
    throw new ApiError('invalid_input', 'There is no such capability.');
  if (errorCode !== null && !/^[a-z_]{1,64}$/.test(errorCode))
    throw new ApiError('invalid_input', 'There is no such error code.');
  if (before !== null && !isJobId(before)) throw new ApiError('invalid_input', 'There is no such job.');
  const [from, to] = [momentOf('from', asked.from), momentOf('to', asked.to)];
  const ids = (micros: bigint | undefined, shiftMs: number) =>
    micros === undefined ? undefined : idAt('job-', Number(micros / 1000n) + shiftMs);
  const past = ids(to, CLOCKS_MS) ?? LAST_ID;
  return {
    account: asked.accountId ?? '',
    ...{ status, capability, error: errorCode, before },
    from: from === undefined ? '-infinity' : timestampOf(from),
    to: to === undefined ? 'infinity' : timestampOf(to),
    first: ids(from, -CLOCKS_MS) ?? '',
    past: before !== null && before < past ? before : past,
    limit: limitOf(asked.limit),
  };
}

function momentOf(name: string, text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const micros = parseMoment(text);
  if (micros === undefined) throw new ApiError('invalid_input', `"${name}" ${MOMENT_RULE}.`);
  return micros;
}

export function jobEntry(row: EntryRow, courseOf: CourseOf): JobEntry {
  const history = row.history ?? courseOf(row.id);
  return {
    jobId: row.id,
    accountId: row.account_id,
    capability: row.capability,
    status: row.status,
    createdAt: row.created_at.toISOString(),
    endedAt: row.settled_at?.toISOString(),
    errorCode: row.error_code ?? undefined,
    errorMessage: row.error_message ?? undefined,
    reason: row.reason ?? undefined,
    holdMicros: row.hold_micros,
    chargedMicros: row.charged_micros ?? undefined,
    agent: history?.attempts.at(-1)?.agent,
    attempts: history?.attempted ?? 0,
  };
}
