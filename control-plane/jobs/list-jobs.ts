import { ApiError } from '@semblance/common/errors';
import { parseMoment } from '@semblance/common/moment';
import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import { JOB_STATUSES } from '@semblance/events/jobs';
import type { ListJobsRequest } from '@semblance/proto/semblance/control/v1/control';
import { timestampOf } from '../storage/moments.ts';
import { isStorable, type Sql } from '../storage/sql.ts';
import { boundsOf } from '../usage/usage.ts';
import { isJobId, JOB_COLUMNS, type JobRow, toJobRow } from './job-row.ts';

/** Most jobs of a page, whose records together fit one message. */
const MAX_PAGE = 200;

export interface ListedRow {
  readonly row: JobRow;
  readonly capability: string;
  /** ISO 8601 UTC, to the microsecond. */
  readonly createdAt: string;
  readonly endedAt: string | undefined;
}

export interface JobPage {
  readonly jobs: ListedRow[];
  /** Undefined: there are no more. */
  readonly nextCursor: string | undefined;
}

/** A place in the list: right after this job. */
interface Place {
  readonly createdAt: string;
  readonly jobId: string;
}

/**
 * Lists jobs of an account, newest first. Jobs of an account become visible in the order of their times, so those that
 * are added meanwhile come before every page but the first: none is missed or repeated.
 * @throws ApiError invalid_input
 */
export async function listJobs(
  sql: Sql,
  accountId: string,
  request: Omit<ListJobsRequest, 'caller'>,
): Promise<JobPage> {
  const { status = null, capability = null, range, metadata, limit, cursor } = request;
  if (status !== null && !(JOB_STATUSES as readonly string[]).includes(status))
    throw new ApiError('invalid_input', `\`status\` must be ${JOB_STATUSES.join(', ')}.`);
  if (capability !== null && !(isCapability(capability) && CAPABILITIES[capability].shape === 'job'))
    throw new ApiError('invalid_input', '`capability` must be a job capability.');
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE)
    throw new ApiError('invalid_input', `\`limit\` is a whole number from 1 to ${MAX_PAGE}.`);
  if (metadata && !(isStorable(metadata.name) && isStorable(metadata.value)))
    throw new ApiError('invalid_input', '`metadata` must be well-formed Unicode text.');
  const { from, to } = boundsOf(range);
  const after = cursor === undefined ? undefined : placeIn(cursor);

  // One more than asked for tells whether there are more.
  const rows = await sql<(Record<string, unknown> & { id: string; created_at_text: string })[]>`
    select ${JOB_COLUMNS}, to_char(j.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at_text
    from list_jobs(${accountId}, ${status}, ${capability}, metadata_entry(${metadata?.name ?? null}, ${metadata?.value ?? null}),
                   ${from}::timestamptz, ${to}::timestamptz, ${after?.createdAt ?? null}::timestamptz,
                   ${after?.jobId ?? null}, ${limit + 1}) j
    order by j.created_at desc, j.id desc`;
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return {
    jobs: rows.slice(0, limit).map((columns) => {
      const row = toJobRow(columns);
      return {
        row,
        capability: row.capability,
        createdAt: columns.created_at_text,
        endedAt: row.settledAt?.toISOString(),
      };
    }),
    nextCursor: last && cursorOf({ createdAt: last.created_at_text, jobId: last.id }),
  };
}

function cursorOf({ createdAt, jobId }: Place): string {
  return Buffer.from(`${createdAt} ${jobId}`).toString('base64url');
}

/** @throws ApiError invalid_input */
function placeIn(cursor: string): Place {
  const [createdAt = '', jobId = '', ...rest] = Buffer.from(cursor, 'base64url')
    .toString('latin1')
    .split(' ');
  const micros = parseMoment(createdAt);
  if (micros === undefined || !isJobId(jobId) || rest.length > 0)
    throw new ApiError('invalid_input', '`cursor` must be the `next_cursor` of an earlier answer.');
  return { createdAt: timestampOf(micros), jobId };
}
