import { createHash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import { microsToUsd } from '@semblance/common/money';
import { isObjectKey } from '@semblance/common/object-key';
import {
  callbackUrlFault,
  EXPIRES_IN_RULE,
  IDEMPOTENCY_KEY_RULE,
  isExpiresIn,
  isIdempotencyKey,
  metadataFault,
} from '@semblance/common/submit-rules';
import { tracer } from '@semblance/common/tracing/tracing';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { CAPABILITIES, inputsOf, isCapability } from '@semblance/engine-api/capabilities';
import { capRefusal } from '../billing/caps.ts';
import { checkFaces, storedMapping } from '../faces/mapping.ts';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { isStorable, NoConnectionError, type Sql, StorageError, sqlState } from '../storage/sql.ts';
import { checkVoice } from './avatar-voices.ts';
import { checkOptions, checkOptionsForm } from './engine-options.ts';
import { checkExpiry } from './expiry.ts';
import type { UnknownSubmit } from './retract.ts';
import type { Submission } from './submission.ts';

export interface Submitted {
  readonly jobId: string;
  /** The Idempotency-Key was used before with the same body; this is the job of that time. */
  readonly replayed: boolean;
}

/** Debts of a committed submit; see Outbox. */
export interface SubmitDebts {
  readonly jobId: string;
  readonly renderJobTask: bigint;
  readonly eventTask: bigint;
  readonly submission: Submission;
}

export interface SubmitOptions {
  readonly database: Database;
  /** Called for every job right after its commit. */
  readonly onCommitted: (debts: SubmitDebts) => void;
  /** Called for a submit that is answered as failed although it may be carried out, and that no retry will find. */
  readonly onUnknown: (submit: UnknownSubmit) => void;
  /** @param holdMicros of an accepted submit */
  readonly onOutcome?: (outcome: string, capability: string, holdMicros: bigint) => void;
  /** False: nothing delivers webhooks, so a submit that asks for one is refused instead of waiting for it. */
  readonly webhooks: boolean;
  /** Agents that a job may go to. Default: none is known. */
  readonly agents?: () => readonly GpuAgent[];
}

export interface Prepared {
  readonly jobId: string;
  readonly submission: Submission;
  readonly request: Record<string, unknown>;
  /** Whether its statement was sent. */
  sent: boolean;
}

export interface Outcome {
  readonly place: bigint;
  readonly outcome: string;
  readonly job_id: string | null;
  readonly detail: string | null;
  readonly amount_micros: bigint | null;
  readonly renderjob_task: bigint | null;
  readonly event_task: bigint | null;
}

/**
 * Submits jobs, each in one transaction with its hold, its record and its debts. Submits that wait for the database
 * at the same time share a transaction.
 */
export function createSubmit(options: SubmitOptions) {
  const { database, onCommitted, onUnknown, onOutcome } = options;
  const batcher = createBatcher<Prepared, Outcome>({
    deadlineMs: database.deadlineMs,
    concurrency: 2,
    maxSize: 32,
    // An error from the server means that the batch was rolled back; without an answer nothing is known and nothing
    // is repeated.
    divisible: (error) => sqlState(error) !== undefined,
    async run(batch) {
      for (const each of batch) each.sent = true;
      const requests = batch.map(({ request }) => request);
      if (tracer) return submitTraced(database.sql, requests, tracesOf(batch));
      const rows = await database.sql<Outcome[]>`
        select place, (result).* from submit_jobs(${database.sql.json(requests)}::jsonb) order by place`;
      return rows;
    },
  });

  /**
   * @throws ApiError invalid_input, capability_unavailable, at_capacity, insufficient_balance, internal_error
   */
  return async function submit(submission: Submission): Promise<Submitted> {
    const prepared = prepare(submission, options.webhooks);
    await checkBySettings(database.sql, submission, options.agents?.() ?? []);
    const outcome = await batcher.submit(prepared).catch((error) => {
      // With an Idempotency-Key, the retry that the answer asks for finds the job.
      const unknown = prepared.sent && error instanceof StorageError && !(error instanceof NoConnectionError);
      if (unknown && submission.idempotencyKey === undefined)
        onUnknown({ jobId: prepared.jobId, accountId: submission.accountId });
      throw error;
    });
    const held = outcome.outcome === 'accepted' ? (outcome.amount_micros ?? 0n) : 0n;
    const name = outcome.detail?.startsWith('failed_work') ? 'failed_work' : outcome.outcome;
    onOutcome?.(name, submission.capability, held);
    if (outcome.outcome === 'accepted') {
      const { renderjob_task: renderJobTask, event_task: eventTask } = outcome;
      if (renderJobTask === null || eventTask === null) throw new Error('an accepted submit owes nothing');
      onCommitted({ jobId: prepared.jobId, renderJobTask, eventTask, submission });
      return { jobId: prepared.jobId, replayed: false };
    }
    if (outcome.outcome === 'replayed' && outcome.job_id !== null)
      return { jobId: outcome.job_id, replayed: true };
    throw refusal(outcome, submission);
  };
}

/** Checks what settings and agents decide. @throws ApiError invalid_input */
export async function checkBySettings(
  sql: Sql,
  submission: Submission,
  agents: readonly GpuAgent[],
): Promise<void> {
  await checkOptions(sql, submission);
  await checkExpiry(sql, submission);
  await checkVoice(sql, submission);
  await checkFaces(sql, submission, agents);
}

function tracesOf(batch: readonly Prepared[]): Record<string, string> {
  return Object.fromEntries(
    batch.flatMap(({ jobId, submission: { traceparent } }) => (traceparent ? [[jobId, traceparent]] : [])),
  );
}

/** Submits, and stores the trace of each accepted job. */
function submitTraced(sql: Sql, requests: readonly unknown[], traces: Record<string, string>) {
  return sql<Outcome[]>`
    with submitted as materialized (
      select place, (result).* from submit_jobs(${sql.json(requests)}::jsonb)
    ), kept as (
      insert into job_traces (job_id, traceparent)
      select s.job_id, t.value from submitted s join jsonb_each_text(${sql.json(traces)}::jsonb) t on t.key = s.job_id
      where s.outcome = 'accepted'
    )
    select * from submitted order by place`;
}

/** A submit, checked as far as possible without the database. */
interface CheckedSubmission {
  readonly inputs: readonly { readonly role: string; readonly key: string; readonly kind: string }[];
  readonly callback: string | null;
}

/** @throws ApiError invalid_input */
export function checkSubmission(
  {
    capability,
    inputs,
    parameters,
    engineOptions,
    callbackUrl,
    metadata = {},
    expiresInSeconds,
  }: Omit<Submission, 'accountId' | 'idempotencyKey'>,
  webhooks: boolean,
): CheckedSubmission {
  if (!isCapability(capability) || CAPABILITIES[capability].shape !== 'job')
    throw new ApiError('invalid_input', 'There is no such job capability.');
  const wanted = inputsOf(capability);
  for (const role of Object.keys(inputs)) {
    if (!Object.hasOwn(wanted, role))
      throw new ApiError('invalid_input', `${CAPABILITIES[capability].title} takes no such input.`);
  }
  const keyed = Object.entries(wanted).flatMap(([role, { field, kind, optional }]) => {
    const key = inputs[role];
    if (optional && key === undefined) return [];
    if (!key) throw new ApiError('invalid_input', `\`${field}\` is required.`);
    if (!key.startsWith('api/') || !isObjectKey(key))
      throw new ApiError('invalid_input', `\`${field}\` is not a file key: pass it as the upload gave it.`);
    return [{ role, key, kind }];
  });
  const settings = Object.entries(parameters);
  if (settings.length > 16) throw new ApiError('invalid_input', 'There are too many parameters.');
  for (const [name, value] of settings) {
    if (!/^[a-z][a-z0-9_]{0,63}$/.test(name) || value.length > 20_000 || !isStorable(value))
      throw new ApiError('invalid_input', 'A parameter has a name or a value that cannot be used.');
  }
  checkOptionsForm(engineOptions);
  storedMapping({ capability, inputs, parameters });
  const fault = metadataFault(metadata);
  if (fault) throw new ApiError('invalid_input', `\`metadata\` ${fault}.`);
  if (expiresInSeconds !== undefined && !isExpiresIn(expiresInSeconds))
    throw new ApiError('invalid_input', `\`expires_in\` ${EXPIRES_IN_RULE}.`);
  const callback = callbackUrl === undefined ? null : checkCallbackUrl(callbackUrl, webhooks);
  return { inputs: keyed, callback };
}

/** @throws ApiError invalid_input */
export function prepare(submission: Submission, webhooks: boolean): Prepared {
  const { capability, parameters, engineOptions, idempotencyKey, metadata = {} } = submission;
  const { inputs, callback } = checkSubmission(submission, webhooks);
  if (idempotencyKey !== undefined && !isIdempotencyKey(idempotencyKey))
    throw new ApiError('invalid_input', `Idempotency-Key ${IDEMPOTENCY_KEY_RULE}.`);

  const jobId = newId('job-');
  return {
    jobId,
    submission,
    sent: false,
    request: {
      job: jobId,
      account: submission.accountId,
      capability,
      inputs,
      parameters,
      engine_options: Object.keys(engineOptions).length > 0 ? engineOptions : null,
      callback,
      idempotency_key: idempotencyKey ?? null,
      body_sha256: bodyDigest(submission),
      metadata: Object.keys(metadata).length > 0 ? metadata : null,
      expires_in_seconds: submission.expiresInSeconds ?? null,
      key_id: submission.keyId ?? null,
    },
  };
}

/** Returns the URL in its canonical form. @throws ApiError invalid_input */
export function checkCallbackUrl(text: string, webhooks: boolean): string {
  const fault = callbackUrlFault(text);
  if (fault) throw new ApiError('invalid_input', `\`callback_url\` ${fault}.`);
  if (!webhooks)
    throw new ApiError(
      'invalid_input',
      'Webhooks are switched off on this installation: leave `callback_url` out and poll the job.',
    );
  return new URL(text).href;
}

/**
 * Returns the SHA-256, in hexadecimal, of a submit's content; equal for equal submits however they were written.
 * Digests are stored: a submit without a field that is new must keep its digest, or a retry across an upgrade is a
 * conflict.
 */
export function bodyDigest({
  capability,
  inputs,
  parameters,
  engineOptions,
  callbackUrl,
  metadata = {},
  expiresInSeconds,
}: Submission): string {
  const sorted = (map: Readonly<Record<string, string>>) =>
    Object.entries(map).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const options = sorted(engineOptions);
  const entries = sorted(metadata);
  const canonical = JSON.stringify([
    capability,
    sorted(inputs),
    sorted(parameters),
    callbackUrl ?? null,
    ...(options.length > 0 ? [options] : []),
    ...(entries.length > 0 ? [{ metadata: entries }] : []),
    ...(expiresInSeconds === undefined ? [] : [{ expires_in: expiresInSeconds }]),
  ]);
  return createHash('sha256').update(canonical).digest('hex');
}

/** Returns why a submit, or its estimate, is refused. */
export function refusal(
  outcome: Pick<Outcome, 'outcome' | 'detail' | 'amount_micros'>,
  { capability }: Pick<Submission, 'capability'>,
): Error {
  const facts = isCapability(capability) ? CAPABILITIES[capability] : undefined;
  const input = isCapability(capability) ? inputsOf(capability)[outcome.detail ?? ''] : undefined;
  switch (outcome.outcome) {
    case 'conflict':
      return new ApiError('invalid_input', 'This Idempotency-Key was used with a different request before.');
    case 'capability_unavailable':
      return new ApiError('capability_unavailable', `${facts?.title} is switched off at present.`);
    case 'unknown_input':
      return new ApiError('invalid_input', `\`${input?.field}\` names no upload of yours.`);
    case 'wrong_kind':
      return new ApiError('invalid_input', `\`${input?.field}\` must be the key of ${article(input?.kind)}.`);
    case 'account_full':
      return new ApiError(
        'at_capacity',
        `This account may have ${outcome.detail} jobs in flight. Retry when one has ended.`,
      );
    case 'platform_full':
      return outcome.detail === null
        ? new ApiError('at_capacity', 'The platform is busy at present. Retry shortly.')
        : tooMuchFailed(outcome.detail);
    case 'capped':
      return capRefusal(outcome.detail, 'This job needs a hold', outcome.amount_micros ?? 0n);
    case 'insufficient_balance':
      return new ApiError(
        'insufficient_balance',
        `This job needs a hold of ${microsToUsd(outcome.amount_micros ?? 0n)} USD; ${microsToUsd(BigInt(outcome.detail ?? 0))} USD are available (available_usd of GET /balance).`,
      );
    default:
      return new Error(`unknown outcome of a submit: ${outcome.outcome}`);
  }
}

/** @param detail `failed_work <slot-seconds>` */
function tooMuchFailed(detail: string): ApiError {
  const [, seconds] = detail.split(' ');
  return new ApiError(
    'at_capacity',
    `Within an hour this account’s renders that failed on their inputs, took too long or were cancelled may take ${seconds} slot-seconds, and took more. Check the inputs, and submit again later.`,
    { retryAfterSeconds: 60 },
  );
}

function article(kind: string | undefined): string {
  return kind === 'video'
    ? 'a video or an animated picture'
    : kind === 'audio'
      ? 'an audio file'
      : 'an image';
}
