import { ApiError } from '@semblance/common/errors';
import { textsIn } from '@semblance/common/job-texts';
import type { JobTransfer, ShowJobResponse } from '@semblance/proto/semblance/admin/v1/admin';
import type { Sql } from '../storage/sql.ts';
import { deliveryView, listDeliveries, withoutQuery } from '../webhooks/list-deliveries.ts';
import type { JobHistory } from './history.ts';
import { type CourseOf, ENTRY_COLUMNS, type EntryRow, jobEntry } from './job-entries.ts';
import { isJobId } from './job-row.ts';

interface DetailRow extends EntryRow {
  readonly processing_at: Date | null;
  readonly cancel_requested_at: Date | null;
  readonly inputs: Record<string, string>;
  readonly parameters: Record<string, string>;
  readonly engine_options: Record<string, string> | null;
  readonly callback_url: string | null;
  readonly hold_id: bigint;
  readonly unit: string;
  readonly rate_version: bigint;
  readonly rate_micros: bigint;
  readonly charged_rate_micros: bigint | null;
  readonly milli_units: bigint | null;
  readonly engine: string | null;
  readonly output_key: string | null;
  readonly output_size_bytes: bigint | null;
  readonly output_removed_at: Date | null;
}

/**
 * Returns all that is known of a job. What its RenderJob says counts until the job has ended, and then what was kept of
 * it. @throws ApiError not_found
 */
export async function showJob(sql: Sql, jobId: string, courseOf: CourseOf): Promise<ShowJobResponse> {
  const [row] = isJobId(jobId)
    ? await sql<DetailRow[]>`
        select ${ENTRY_COLUMNS}, j.processing_at, j.cancel_requested_at, j.inputs, j.parameters, j.engine_options,
               j.callback_url, j.hold_id, j.unit, j.rate_version, j.rate_micros, j.charged_rate_micros, j.milli_units,
               j.engine, j.output_key, j.output_size_bytes, j.output_removed_at
        from jobs j left join job_histories h on h.job_id = j.id where j.id = ${jobId}`
    : [];
  if (!row) throw new ApiError('not_found', `There is no job ${JSON.stringify(jobId.slice(0, 80))}.`);
  const [transfers, deliveries] = await Promise.all([
    transfersOf(sql, row),
    listDeliveries(sql, { jobId, limit: 1 }),
  ]);
  const history = row.history ?? courseOf(jobId);
  return {
    job: jobEntry(row, courseOf),
    ...courseView(history),
    processingAt: row.processing_at?.toISOString(),
    cancelRequestedAt: row.cancel_requested_at?.toISOString(),
    inputs: row.inputs,
    parameters: withoutTexts(row.parameters),
    engineOptions: row.engine_options ?? {},
    callbackUrl: row.callback_url === null ? undefined : withoutQuery(row.callback_url),
    unit: row.unit,
    rateVersion: row.rate_version,
    rateMicros: row.rate_micros,
    chargedRateMicros: row.charged_rate_micros ?? undefined,
    milliUnits: row.milli_units ?? undefined,
    engine: row.engine ?? undefined,
    outputKey: row.output_key ?? undefined,
    outputSizeBytes: row.output_size_bytes ?? undefined,
    outputRemovedAt: row.output_removed_at?.toISOString(),
    transfers,
    deliveries: deliveries.map(deliveryView),
  };
}

function courseView(history: JobHistory | undefined) {
  return {
    courseReason: history?.reason ?? undefined,
    courseMessage: history?.message ?? undefined,
    attempts: (history?.attempts ?? []).map(({ number, agent, started_at, ended_at, reason, message }) => ({
      number,
      agent,
      startedAt: started_at ?? undefined,
      endedAt: ended_at ?? undefined,
      reason: reason ?? undefined,
      message: message ?? undefined,
    })),
    stages: (history?.stages ?? []).map(({ name, milliseconds, engine }) => ({
      name,
      milliseconds: BigInt(milliseconds),
      engine,
    })),
  };
}

/** What people have said is not for those who look after the service. */
function withoutTexts(parameters: Record<string, string>): Record<string, string> {
  const texts = textsIn(parameters);
  return {
    ...parameters,
    ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, `${text.length} characters`])),
  };
}

async function transfersOf(
  sql: Sql,
  { id, hold_id }: Pick<DetailRow, 'id' | 'hold_id'>,
): Promise<JobTransfer[]> {
  const rows = await sql<
    {
      id: bigint;
      kind: string;
      debit: string;
      credit: string;
      amount_micros: bigint;
      created_at: Date;
      reason: string | null;
      reference: string | null;
    }[]
  >`
    select id, kind, debit, credit, amount_micros, created_at, reason, reference from ledger_transfers where id = ${hold_id}
    union all
    select id, kind, debit, credit, amount_micros, created_at, reason, reference from ledger_transfers where hold_id = ${hold_id}
    union all
    select id, kind, debit, credit, amount_micros, created_at, reason, reference from ledger_transfers where refund_of = ${id}
    order by id`;
  return rows.map((row) => ({
    transferId: row.id,
    kind: row.kind,
    debit: row.debit,
    credit: row.credit,
    amountMicros: row.amount_micros,
    at: row.created_at.toISOString(),
    reason: row.reason ?? undefined,
    reference: row.reference ?? undefined,
  }));
}
