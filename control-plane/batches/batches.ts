import { createHash } from 'node:crypto';
import { BATCH_ID, MAX_ITEMS } from '@semblance/common/batch-rules';
import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import { type Micros, microsToUsd } from '@semblance/common/money';
import { IDEMPOTENCY_KEY_RULE, isIdempotencyKey, metadataFault } from '@semblance/common/submit-rules';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { capFault, type HoldUnderCap } from '../billing/caps.ts';
import type { CallbackCheck } from '../jobs/callback-check.ts';
import type { UnknownSubmit } from '../jobs/retract.ts';
import type { Submission } from '../jobs/submission.ts';
import {
  bodyDigest,
  checkBySettings,
  checkSubmission,
  type Outcome,
  prepare,
  refusal,
  type SubmitDebts,
} from '../jobs/submit.ts';
import type { Database } from '../storage/database.ts';
import { NoConnectionError, type Sql, StorageError, type Transaction } from '../storage/sql.ts';

/** A batch after its check, as the books take it. */
export interface BatchSubmission {
  readonly accountId: string;
  /** Its jobs, in the order of the items; none has an Idempotency-Key. */
  readonly items: readonly Submission[];
  readonly callbackUrl: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | undefined;
}

export interface SubmittedBatch {
  /** The batch as JSON, as the API answers it. */
  readonly record: string;
  /** The Idempotency-Key was used before with the same body; this is the batch of that time, as it stands. */
  readonly replayed: boolean;
}

export interface BatchQuote {
  readonly holdMicros: Micros;
  readonly balanceSufficient: boolean;
  readonly itemHoldMicros: readonly Micros[];
  /** As in an Estimate, of all holds together. */
  readonly capRefusal: string | undefined;
}

export interface BatchOptions {
  readonly database: Database;
  readonly callbackCheck: CallbackCheck;
  /** Agents that a job may go to. */
  readonly agents: () => readonly GpuAgent[];
  /** Called for every job right after the commit. */
  readonly onCommitted: (debts: SubmitDebts) => void;
  /** Called for each job of a batch that is answered as failed although it may be carried out, and that no retry finds. */
  readonly onUnknown: (submit: UnknownSubmit) => void;
  readonly onOutcome?: (outcome: string, capability: string, holdMicros: bigint) => void;
}

type Quote = {
  readonly outcome: string;
  readonly detail: string | null;
  readonly hold_micros: bigint;
  readonly available_micros: bigint;
};

/** Submits batches: one transaction admits all jobs with their holds, or none. */
export function createBatches(options: BatchOptions) {
  const { database, callbackCheck, agents, onCommitted, onUnknown, onOutcome } = options;
  const { sql } = database;

  /** @throws ApiError invalid_input, capability_unavailable, at_capacity, insufficient_balance, internal_error */
  async function submit(batch: BatchSubmission): Promise<SubmittedBatch> {
    const digest = checkForm(batch);
    const before = await findUsed(sql, batch, digest);
    if (before) return before;
    await checkItems(batch);
    const jobs = inOrder(batch.items, (item) => prepare(item, true));
    const requests = jobs.map(({ request }) => request);
    let sent = false;
    const admitted = await sql
      .begin(async (tx) => {
        // Everything that decides about the money and the keys of this account waits here.
        await tx`select 1 from account_balances where account_id = ${batch.accountId} for no key update`;
        const used = await findUsed(tx, batch, digest);
        if (used) return used;
        const { holdMicros } = await affordable(tx, batch);
        const id = newId('bat-');
        await tx`
          insert into batches (id, account_id, jobs, unsettled, hold_micros, callback_url, metadata, idempotency_key, body_sha256)
          values (${id}, ${batch.accountId}, ${jobs.length}, ${jobs.length}, ${holdMicros}, ${callbackOf(batch)},
                  ${Object.keys(batch.metadata).length > 0 ? tx.json(batch.metadata) : null}::jsonb,
                  ${batch.idempotencyKey ?? null}, ${digest})`;
        if (batch.callbackUrl !== undefined) await tx`select make_webhook_secret(${batch.accountId})`;
        sent = true;
        const outcomes = await tx<Outcome[]>`
          select place, (result).* from submit_jobs(${tx.json(requests)}::jsonb) order by place`;
        for (const [index, outcome] of outcomes.entries())
          if (outcome.outcome !== 'accepted') throw refusalOf(outcome, batch, index);
        await tx`
          update jobs j set batch_id = ${id}, batch_index = u.place - 1
          from unnest(${jobs.map(({ jobId }) => jobId)}::text[]) with ordinality as u(id, place) where j.id = u.id`;
        return { id, outcomes };
      })
      .catch((error) => {
        const unknown = sent && error instanceof StorageError && !(error instanceof NoConnectionError);
        if (unknown && batch.idempotencyKey === undefined)
          for (const { jobId } of jobs) onUnknown({ jobId, accountId: batch.accountId });
        throw error;
      });
    if ('record' in admitted) return admitted;
    for (const [index, outcome] of admitted.outcomes.entries()) {
      const { renderjob_task: renderJobTask, event_task: eventTask, amount_micros: held } = outcome;
      const job = jobs[index];
      if (!job || renderJobTask === null || eventTask === null)
        throw new Error('an accepted submit owes nothing');
      onOutcome?.('accepted', job.submission.capability, held ?? 0n);
      onCommitted({ jobId: job.jobId, renderJobTask, eventTask, submission: job.submission });
    }
    return { record: await recordOf(sql, batch.accountId, admitted.id), replayed: false };
  }

  /** Returns what a batch would hold now. @throws ApiError invalid_input, capability_unavailable */
  async function estimate(batch: BatchSubmission): Promise<BatchQuote> {
    checkForm(batch);
    await checkItems(batch);
    return quoted(database.fast, batch);
  }

  /** @throws ApiError invalid_input */
  async function checkItems(batch: BatchSubmission): Promise<void> {
    if (batch.callbackUrl !== undefined)
      await callbackCheck.resolved({ ...(batch.items[0] as Submission), callbackUrl: batch.callbackUrl });
    const resolved = new Set<string | undefined>();
    for (const [index, item] of batch.items.entries())
      await named(index, async () => {
        // A batch that calls one address for each job has it looked up once.
        await (resolved.has(item.callbackUrl) ? callbackCheck.text(item) : callbackCheck.resolved(item));
        resolved.add(item.callbackUrl);
        await checkBySettings(sql, item, agents());
      });
  }

  return { submit, estimate };
}

export type Batches = ReturnType<typeof createBatches>;

/** Returns the digest of what a batch asks for. @throws ApiError invalid_input */
function checkForm({ items, metadata, idempotencyKey, callbackUrl }: BatchSubmission): Buffer {
  if (items.length < 1 || items.length > MAX_ITEMS)
    throw new ApiError('invalid_input', `A batch has 1 to ${MAX_ITEMS.toLocaleString('en')} items.`);
  const fault = metadataFault(metadata);
  if (fault) throw new ApiError('invalid_input', `\`metadata\` ${fault}.`);
  if (idempotencyKey !== undefined && !isIdempotencyKey(idempotencyKey))
    throw new ApiError('invalid_input', `Idempotency-Key ${IDEMPOTENCY_KEY_RULE}.`);
  inOrder(items, (item) => checkSubmission(item, true));
  const entries = Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([items.map(bodyDigest), callbackUrl ?? null, entries]))
    .digest();
}

const callbackOf = ({ callbackUrl }: BatchSubmission): string | null =>
  callbackUrl === undefined ? null : new URL(callbackUrl).href;

/** Returns the batch that an Idempotency-Key made before. @throws ApiError invalid_input for another body */
async function findUsed(
  tx: Transaction,
  { accountId, idempotencyKey }: BatchSubmission,
  digest: Buffer,
): Promise<SubmittedBatch | undefined> {
  if (idempotencyKey === undefined) return undefined;
  const [used] = await tx<{ id: string; body_sha256: Buffer }[]>`
    select id, body_sha256 from batches where account_id = ${accountId} and idempotency_key = ${idempotencyKey}`;
  if (!used) return undefined;
  if (!used.body_sha256.equals(digest))
    throw new ApiError('invalid_input', 'This Idempotency-Key was used with a different request before.');
  return { record: await recordOf(tx, accountId, used.id), replayed: true };
}

/** @throws ApiError invalid_input or capability_unavailable for an item, insufficient_balance for their sum, also by a cap */
async function affordable(tx: Transaction, batch: BatchSubmission): Promise<BatchQuote> {
  const quote = await quoted(tx, batch);
  if (!quote.balanceSufficient)
    throw new ApiError(
      'insufficient_balance',
      `This batch needs holds of ${microsToUsd(quote.holdMicros)} USD; ${microsToUsd(quote.availableMicros)} USD are available (available_usd of GET /balance).`,
    );
  if (quote.capRefusal !== undefined) throw new ApiError('insufficient_balance', quote.capRefusal);
  return quote;
}

/** Prices each item. @throws ApiError invalid_input, capability_unavailable */
async function quoted(
  tx: Transaction,
  { accountId, items }: BatchSubmission,
): Promise<BatchQuote & { readonly availableMicros: bigint }> {
  const asked = items.map((item) => ({
    capability: item.capability,
    inputs: checkSubmission(item, true).inputs,
    parameters: item.parameters,
  }));
  const quotes = await tx<Quote[]>`
    select (quote).* from quote_items(${accountId}, ${tx.json(asked)}::jsonb) order by place`;
  for (const [index, quote] of quotes.entries())
    if (quote.outcome !== 'quoted')
      throw inItem(index, refusal({ ...quote, amount_micros: null }, items[index] as Submission));
  const itemHoldMicros = quotes.map(({ hold_micros }) => hold_micros);
  const holdMicros = itemHoldMicros.reduce((sum, hold) => sum + hold, 0n);
  const availableMicros = quotes[0]?.available_micros ?? 0n;
  // Items of one batch have one key.
  const [state] = await tx<Omit<HoldUnderCap, 'hold_micros'>[]>`
    select to_json(c)::text as cap, cap_room(c) as cap_room from tightest_cap(${accountId}, ${items[0]?.keyId ?? null}) c`;
  if (!state) throw new Error('a cap has no state');
  return {
    holdMicros,
    itemHoldMicros,
    availableMicros,
    balanceSufficient: availableMicros >= holdMicros,
    capRefusal: capFault({ hold_micros: holdMicros, ...state }, 'This batch needs holds'),
  };
}

function refusalOf(outcome: Outcome, { items }: BatchSubmission, index: number): Error {
  const error = refusal(outcome, items[index] as Submission);
  if (outcome.outcome === 'account_full')
    return new ApiError(
      'at_capacity',
      `This account may have ${outcome.detail} jobs in flight, and a batch is taken whole: ${index} of its ${items.length} jobs would find room. Retry when jobs have ended, or send fewer.`,
    );
  return inItem(index, error);
}

/** Returns an error of an item that says which one it is. */
function inItem(index: number, error: Error): Error {
  if (!(error instanceof ApiError) || error.code === 'internal_error' || error.code === 'at_capacity')
    return error;
  return new ApiError(error.code, `items.${index}: ${error.message}`, { cause: error });
}

async function named<T>(index: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw inItem(index, error as Error);
  }
}

function inOrder<T>(items: readonly Submission[], each: (item: Submission) => T): T[] {
  return items.map((item, index) => {
    try {
      return each(item);
    } catch (error) {
      throw inItem(index, error as Error);
    }
  });
}

/** Returns a batch as JSON, as the API answers it. @throws ApiError not_found */
export async function recordOf(sql: Sql | Transaction, accountId: string, batchId: string): Promise<string> {
  const [row] = BATCH_ID.test(batchId)
    ? await sql<{ record: unknown }[]>`
        select batch_record(b.id) as record from batches b where b.id = ${batchId} and b.account_id = ${accountId}`
    : [];
  if (!row) throw new ApiError('not_found', 'There is no such batch.');
  return JSON.stringify(row.record);
}
