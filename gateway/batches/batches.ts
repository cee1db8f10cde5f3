import { BATCH_ID } from '@semblance/common/batch-rules';
import { ApiError } from '@semblance/common/errors';
import { jobRecord } from '@semblance/common/job-record';
import { microsToUsd } from '@semblance/common/money';
import type { BatchItem } from '@semblance/proto/semblance/control/v1/batches';
import type { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { CallerBeforeBody } from '../auth/known-keys.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { faultsOf } from '../http/faults.ts';
import { BATCH_BYTES, readJson } from '../http/json-body.ts';
import { queryOf } from '../http/query.ts';
import { capFields } from '../jobs/estimate.ts';
import { idempotencyKeyOf } from '../jobs/submit.ts';
import {
  JOB_CAPABILITIES,
  type JobCapability,
  type SubmitParser,
  submitParser,
} from '../jobs/submit-schemas.ts';
import { parseQuery } from '../usage/query.ts';
import { batchesQuery, batchJobsQuery } from './operations.ts';
import { batchBody, estimateBody } from './schemas.ts';

export interface BatchOptions {
  readonly callerOf: CallerBeforeBody;
  readonly control: ControlPlane;
  /** Longest time for a body to arrive, in ms. */
  readonly bodyTimeoutMs: number;
}

const parsers = new Map<JobCapability, SubmitParser>(
  JOB_CAPABILITIES.map((name) => [name, submitParser(name)]),
);

/** Handles POST /batches. */
export function submitBatch(options: BatchOptions): Handler {
  return async (ctx) => {
    const { caller, body, items } = await readBatch(ctx, options, batchBody);
    const idempotencyKey = await checked(ctx, options.control, () =>
      idempotencyKeyOf(ctx.headers['idempotency-key']),
    );
    const { batchJson, replayed } = await options.control.submitBatch(ctx, {
      caller,
      items,
      callbackUrl: body.callback_url,
      metadata: body.metadata ?? {},
      idempotencyKey,
    });
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    answer(ctx, JSON.parse(batchJson));
  };
}

/** Handles POST /batches/estimate. */
export function estimateBatch(options: BatchOptions): Handler {
  return async (ctx) => {
    const { caller, items } = await readBatch(ctx, options, estimateBody);
    const { quote } = await options.control.estimateBatch(ctx, { caller, items });
    if (!quote) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
    answer(ctx, {
      hold_usd: microsToUsd(quote.holdMicros),
      balance_sufficient: quote.balanceSufficient,
      ...capFields(quote),
      items: quote.itemHoldMicros.map((hold) => ({ hold_usd: microsToUsd(hold) })),
    });
  };
}

/** Handles GET /batches. */
export function listBatches({ control }: BatchOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => ({
      caller,
      ...parseQuery(batchesQuery, queryOf(ctx)),
    }));
    const { batchesJson, nextCursor } = await control.listBatches(ctx, request);
    answer(ctx, { batches: batchesJson.map((text) => JSON.parse(text)), next_cursor: nextCursor ?? null });
  };
}

/** Handles GET /batches/{batch_id}. */
export function readBatchRecord({ control }: BatchOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const batchId = await checked(ctx, control, () => idIn(ctx));
    answer(ctx, JSON.parse((await control.getBatch(ctx, { caller, batchId })).batchJson));
  };
}

/** Handles GET /batches/{batch_id}/jobs. */
export function listBatchJobs({ control }: BatchOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => {
      const { limit, from_index: fromIndex } = parseQuery(batchJobsQuery, queryOf(ctx));
      return { caller, batchId: idIn(ctx), limit, fromIndex };
    });
    const { jobs, nextIndex } = await control.listBatchJobs(ctx, request);
    answer(ctx, {
      jobs: jobs.flatMap(({ index, capability, job }) =>
        job ? [{ ...jobRecord(job), index, capability }] : [],
      ),
      next_index: nextIndex ?? null,
    });
  };
}

/** Handles POST /batches/{batch_id}/cancel. */
export function cancelBatch({ control }: BatchOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const batchId = await checked(ctx, control, () => idIn(ctx));
    answer(ctx, JSON.parse((await control.cancelBatch(ctx, { caller, batchId })).batchJson));
  };
}

/**
 * Reads a batch and checks each item as the submit of its capability is checked. With an invalid key the caller learns only
 * that.
 * @throws ApiError `invalid_input` naming the first faulty item with its fields
 */
async function readBatch<T extends typeof batchBody | typeof estimateBody>(
  ctx: GatewayContext,
  { callerOf, control, bodyTimeoutMs }: BatchOptions,
  schema: T,
) {
  const caller = await callerOf(ctx);
  try {
    const body = await readJson(ctx, bodyTimeoutMs, BATCH_BYTES);
    const { data, error } = schema.safeParse(body);
    if (!data) throw new ApiError('invalid_input', faultsOf(error.issues.slice(0, 10), body));
    return { caller, body: data as z.output<typeof batchBody>, items: data.items.map(itemOf) };
  } catch (error) {
    if (error instanceof ApiError) await control.authorize(ctx, { caller });
    throw error;
  }
}

function itemOf(item: { readonly capability: JobCapability }, index: number): BatchItem {
  try {
    const { metadata, ...submit } = (parsers.get(item.capability) as SubmitParser)(item);
    return { capability: item.capability, ...submit, metadata: metadata?.entries ?? {} };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError(error.code, `items.${index}: ${error.message}`);
  }
}

function idIn(ctx: GatewayContext): string {
  const id = ctx.params.batch_id as string;
  if (!BATCH_ID.test(id)) throw new ApiError('not_found', 'There is no such batch.');
  return id;
}

function answer(ctx: GatewayContext, body: object): void {
  ctx.set('Cache-Control', 'no-store');
  ctx.body = body;
}
