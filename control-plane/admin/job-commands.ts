import type { Command } from './command.ts';
import { DELIVERY_COLUMNS, deliveryAnswer } from './delivery-commands.ts';
import { given, LIST_LIMIT, listLimit, usdOf } from './usage.ts';

type Row = Record<string, unknown>;

/** Commands for jobs. */
export const JOB_COMMANDS: readonly Command[] = [
  {
    name: 'job list',
    columns: [
      ...['job_id', 'account_id', 'capability', 'status', 'created_at', 'ended_at', 'charged_usd'],
      ...['attempts', 'agent', 'reason', 'error_code', 'error_message'],
    ],
    help: 'Lists jobs with their errors, the newest first.',
    flags: [
      { name: 'account', value: 'ID', required: false, help: 'of this account alone (acct-…)' },
      {
        name: 'status',
        value: 'S',
        required: false,
        help: 'those alone: queued, processing, succeeded, failed',
      },
      { name: 'capability', value: 'C', required: false, help: 'of this one alone, such as face-swap' },
      { name: 'error', value: 'E', required: false, help: 'failed with this code alone' },
      { name: 'from', value: 'T', required: false, help: 'submitted then or later: a date or a time' },
      { name: 'to', value: 'T', required: false, help: 'submitted before then' },
      { name: 'before', value: 'ID', required: false, help: 'older than this job: the next page' },
      LIST_LIMIT,
    ],
    async run(flags, calls) {
      const { jobs } = await calls.invoke('listJobs', {
        ...given(flags, 'account', 'accountId'),
        ...given(flags, 'status', 'status'),
        ...given(flags, 'capability', 'capability'),
        ...given(flags, 'error', 'errorCode'),
        ...given(flags, 'from', 'from'),
        ...given(flags, 'to', 'to'),
        ...given(flags, 'before', 'before'),
        limit: listLimit(flags),
      });
      return (jobs as Row[]).map(jobEntry);
    },
  },
  {
    name: 'job show',
    tables: {
      attempts: ['number', 'agent', 'started_at', 'ended_at', 'reason', 'message'],
      stages: ['name', 'seconds', 'engine'],
      transfers: ['kind', 'debit', 'credit', 'usd', 'at', 'reason', 'reference'],
      deliveries: DELIVERY_COLUMNS,
    },
    help: 'Shows why a job failed, or what it waits for: its attempts, agents and stages, its money and its deliveries.',
    flags: [{ name: 'job', value: 'ID', required: true, help: 'the job (job-…)' }],
    run: async (flags, calls) => jobAnswer(await calls.invoke('showJob', { jobId: flags.get('job') })),
  },
];

function jobEntry(job: Row): Row {
  return {
    job_id: job.jobId,
    account_id: job.accountId,
    capability: job.capability,
    status: job.status,
    created_at: job.createdAt,
    ended_at: job.endedAt ?? null,
    hold_usd: usdOf(job.holdMicros),
    charged_usd: usdOrNull(job.chargedMicros),
    attempts: job.attempts,
    agent: job.agent ?? null,
    reason: job.reason ?? null,
    error_code: job.errorCode ?? null,
    error_message: job.errorMessage ?? null,
  };
}

const usdOrNull = (micros: unknown) => (micros === undefined ? null : usdOf(micros));
const orNull = (value: unknown) => value ?? null;
const numberOrNull = (value: unknown) => (value === undefined ? null : Number(value));

function jobAnswer(answer: Row): Row {
  const { attempts: attempted, ...entry } = jobEntry(answer.job as Row);
  const milliUnits = numberOrNull(answer.milliUnits);
  return {
    ...entry,
    operator_reason: orNull(answer.courseReason),
    operator_message: orNull(answer.courseMessage),
    attempted,
    processing_at: orNull(answer.processingAt),
    cancel_requested_at: orNull(answer.cancelRequestedAt),
    inputs: answer.inputs,
    parameters: answer.parameters,
    engine_options: answer.engineOptions,
    callback_url: orNull(answer.callbackUrl),
    engine: orNull(answer.engine),
    unit: answer.unit,
    units: milliUnits === null ? null : milliUnits / 1000,
    rate_version: Number(answer.rateVersion),
    rate_usd: usdOf(answer.rateMicros),
    charged_rate_usd: usdOrNull(answer.chargedRateMicros),
    output_key: orNull(answer.outputKey),
    output_size_bytes: numberOrNull(answer.outputSizeBytes),
    output_removed_at: orNull(answer.outputRemovedAt),
    attempts: (answer.attempts as Row[]).map(({ number, agent, startedAt, endedAt, reason, message }) => ({
      number,
      agent,
      started_at: orNull(startedAt),
      ended_at: orNull(endedAt),
      reason: orNull(reason),
      message: orNull(message),
    })),
    stages: (answer.stages as Row[]).map(({ name, milliseconds, engine }) => ({
      name,
      seconds: Number(milliseconds) / 1000,
      engine: orNull(engine),
    })),
    transfers: (answer.transfers as Row[]).map((transfer) => ({
      transfer_id: Number(transfer.transferId),
      kind: transfer.kind,
      debit: transfer.debit,
      credit: transfer.credit,
      usd: usdOf(transfer.amountMicros),
      at: transfer.at,
      reason: orNull(transfer.reason),
      reference: orNull(transfer.reference),
    })),
    deliveries: (answer.deliveries as Row[]).map(deliveryAnswer),
  };
}
