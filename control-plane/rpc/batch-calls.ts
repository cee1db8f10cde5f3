import { ApiError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import type { BatchItem } from '@semblance/proto/semblance/control/v1/batches';
import type {
  CancelBatchRequest,
  CancelBatchResponse,
  EstimateBatchRequest,
  EstimateBatchResponse,
  GetBatchRequest,
  GetBatchResponse,
  ListBatchesRequest,
  ListBatchesResponse,
  ListBatchJobsRequest,
  ListBatchJobsResponse,
  SubmitBatchRequest,
  SubmitBatchResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { Admission, Gate } from '../accounts/gate.ts';
import { type Batches, type BatchSubmission, recordOf } from '../batches/batches.ts';
import type { Canceller } from '../jobs/cancel.ts';
import { JOB_COLUMNS, toJobRow } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import type { Database } from '../storage/database.ts';
import { isStorable } from '../storage/sql.ts';
import { secondsIn } from './together.ts';

export interface BatchCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  readonly view: JobView;
  readonly batches: Batches;
  readonly canceller: Pick<Canceller, 'cancelBatch'>;
}

/** Most entries of a page, whose records together fit one message. */
const MAX_PAGE = 200;

/** Creates the calls of accounts about their batches. */
export function createBatchCalls({ database, gate, view, batches, canceller }: BatchCallsOptions) {
  return {
    async submitBatch(
      { caller, items, callbackUrl, metadata, idempotencyKey }: SubmitBatchRequest,
      { trailers, traceparent }: CallContext,
    ): Promise<SubmitBatchResponse> {
      const admission = await gate.admit(caller, trailers);
      const submission = { ...batchOf(items, admission, traceparent), callbackUrl, metadata, idempotencyKey };
      const { record, replayed } = await batches.submit(submission);
      return { batchJson: record, replayed };
    },

    async estimateBatch(
      { caller, items }: EstimateBatchRequest,
      { trailers }: CallContext,
    ): Promise<EstimateBatchResponse> {
      const quote = await batches.estimate(batchOf(items, await gate.admit(caller, trailers)));
      return { quote: { ...quote, itemHoldMicros: [...quote.itemHoldMicros] } };
    },

    async getBatch(
      { caller, batchId }: GetBatchRequest,
      { trailers }: CallContext,
    ): Promise<GetBatchResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return { batchJson: await recordOf(database.fast, accountId, batchId) };
    },

    async listBatches(
      { caller, limit, cursor }: ListBatchesRequest,
      { trailers }: CallContext,
    ): Promise<ListBatchesResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      checkLimit(limit);
      if (cursor !== undefined && !isStorable(cursor))
        throw new ApiError('invalid_input', '`cursor` must be the `next_cursor` of an earlier answer.');
      // One more than asked for tells whether there are more.
      const rows = await database.fast<{ id: string; record: unknown }[]>`
        select b.id, batch_record(b.id) as record from batches b
        where b.account_id = ${accountId} and (${cursor ?? null}::text is null or b.id < ${cursor ?? null})
        order by b.id desc limit ${limit + 1}`;
      return {
        batchesJson: rows.slice(0, limit).map(({ record }) => JSON.stringify(record)),
        nextCursor: rows.length > limit ? rows[limit - 1]?.id : undefined,
      };
    },

    async listBatchJobs(
      { caller, batchId, limit, fromIndex }: ListBatchJobsRequest,
      { trailers }: CallContext,
    ): Promise<ListBatchJobsResponse> {
      const { accountId, linkSeconds, keyId } = await gate.admit(caller, trailers);
      checkLimit(limit);
      await recordOf(database.fast, accountId, batchId);
      const rows = await database.fast<(Record<string, unknown> & { batch_index: number })[]>`
        select ${JOB_COLUMNS}, j.batch_index from jobs j where j.batch_id = ${batchId} and j.batch_index >= ${fromIndex}
        order by j.batch_index limit ${limit + 1}`;
      const jobs = await Promise.all(
        rows.slice(0, limit).map(async (columns) => {
          const row = toJobRow(columns);
          const job = await view.show(row, linkSeconds, keyId);
          return { index: columns.batch_index, capability: row.capability, job };
        }),
      );
      return { jobs, nextIndex: rows[limit]?.batch_index };
    },

    async cancelBatch(
      { caller, batchId }: CancelBatchRequest,
      { trailers }: CallContext,
    ): Promise<CancelBatchResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      await recordOf(database.sql, accountId, batchId);
      await canceller.cancelBatch(accountId, batchId);
      return { batchJson: await recordOf(database.sql, accountId, batchId) };
    },
  };
}

export type BatchCalls = ReturnType<typeof createBatchCalls>;

/** @throws ApiError invalid_input */
function checkLimit(limit: number): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE)
    throw new ApiError('invalid_input', `\`limit\` is a whole number from 1 to ${MAX_PAGE}.`);
}

function batchOf(
  items: readonly BatchItem[],
  { accountId, keyId }: Pick<Admission, 'accountId' | 'keyId'>,
  traceparent?: string,
): BatchSubmission {
  return {
    accountId,
    items: items.map(({ expiresInSeconds, callbackUrl, ...item }) => ({
      ...{ accountId, keyId, ...item, callbackUrl, traceparent, idempotencyKey: undefined },
      expiresInSeconds: secondsIn(expiresInSeconds),
    })),
    callbackUrl: undefined,
    metadata: {},
    idempotencyKey: undefined,
  };
}
