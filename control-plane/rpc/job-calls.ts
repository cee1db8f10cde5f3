import { ApiError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { isCapability } from '@semblance/engine-api/capabilities';
import { isPreviewed, PREVIEWED } from '@semblance/engine-api/previewed';
import type {
  CancelJobRequest,
  CancelJobResponse,
  EstimateJobRequest,
  EstimateJobResponse,
  ListJobsRequest,
  ListJobsResponse,
  ListSpendDaysRequest,
  ListSpendDaysResponse,
  ListUsageRequest,
  ListUsageResponse,
  PreviewJobRequest,
  PreviewJobResponse,
  ReadJobTextsRequest,
  ReadJobTextsResponse,
  SummarizeUsageRequest,
  SummarizeUsageResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import { withFaces } from '../faces/mapping.ts';
import type { PreviewFrame } from '../inspections/frame-previewer.ts';
import type { Inspect } from '../inspections/inspector.ts';
import type { CallbackCheck } from '../jobs/callback-check.ts';
import type { Canceller } from '../jobs/cancel.ts';
import { estimate } from '../jobs/estimate.ts';
import { JOB_COLUMNS, toJobRow } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import { listJobs } from '../jobs/list-jobs.ts';
import { readJobTexts } from '../jobs/render-jobs.ts';
import type { Database } from '../storage/database.ts';
import { readUsage, spendByDay, summarizeUsage } from '../usage/usage.ts';
import { secondsIn } from './together.ts';

export interface JobCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  readonly view: JobView;
  readonly canceller: Canceller;
  readonly inspect: Inspect;
  readonly previewFrame: PreviewFrame;
  readonly callbackCheck: Pick<CallbackCheck, 'resolved'>;
  /** As for submits. */
  readonly webhooks: boolean;
  readonly agents: () => readonly GpuAgent[];
}

/** Creates the calls of accounts about their jobs besides submitting and reading them. */
export function createJobCalls(options: JobCallsOptions) {
  const { database, gate, view, canceller, inspect, previewFrame, callbackCheck, webhooks, agents } = options;
  return {
    async cancelJob(
      { caller, jobId }: CancelJobRequest,
      { trailers }: CallContext,
    ): Promise<CancelJobResponse> {
      const { accountId, linkSeconds, keyId } = await gate.admit(caller, trailers);
      if (!(await canceller.cancel(accountId, jobId)))
        throw new ApiError('not_found', 'There is no such job.');
      const [row] = await database.sql`
        select ${JOB_COLUMNS} from jobs j where j.id = ${jobId}`;
      if (!row) throw new Error(`job ${jobId} vanished`);
      return { job: await view.show(toJobRow(row), linkSeconds, keyId) };
    },

    readJobTexts: async ({ jobId }: ReadJobTextsRequest): Promise<ReadJobTextsResponse> => ({
      texts: await readJobTexts(database.fast, jobId),
    }),

    async estimateJob(
      request: EstimateJobRequest,
      { trailers, signal }: CallContext,
    ): Promise<EstimateJobResponse> {
      const { accountId, keyId } = await gate.admit(request.caller, trailers);
      const { capability, inputs, parameters, engineOptions, callbackUrl } = request;
      const submission = {
        accountId,
        keyId,
        capability,
        inputs,
        parameters,
        engineOptions,
        callbackUrl,
        metadata: request.metadata?.entries,
        expiresInSeconds: secondsIn(request.expiresInSeconds),
        idempotencyKey: undefined,
      };
      await callbackCheck.resolved(submission);
      const estimated = await estimate(database.fast, submission, webhooks, agents());
      // What is refused as a submit would be is not looked at.
      if (!request.inspect || !isCapability(capability)) return { ...estimated, inspection: undefined };
      const told = await withFaces(database.fast, { capability, inputs, parameters });
      const inspection = await inspect({ accountId, capability, inputs, parameters: told }, signal);
      return { ...estimated, inspection };
    },

    async previewJob(
      { caller, atUs, ...request }: PreviewJobRequest,
      { trailers, signal }: CallContext,
    ): Promise<PreviewJobResponse> {
      const { accountId, keyId } = await gate.admit(caller, trailers);
      const { capability, inputs, parameters } = request;
      if (!isPreviewed(capability))
        throw new ApiError('invalid_input', `There are previews of ${PREVIEWED.join(' and ')}.`);
      const submission = { accountId, ...request, callbackUrl: undefined, idempotencyKey: undefined };
      await estimate(database.fast, submission, webhooks, agents());
      const told = await withFaces(database.fast, { capability, inputs, parameters });
      return {
        jpeg: Buffer.from(
          await previewFrame({ accountId, keyId, capability, inputs, parameters: told, atUs }, signal),
        ),
      };
    },

    async listJobs(request: ListJobsRequest, { trailers }: CallContext): Promise<ListJobsResponse> {
      const { accountId, linkSeconds, keyId } = await gate.admit(request.caller, trailers);
      const { jobs, nextCursor } = await listJobs(database.fast, accountId, request);
      return {
        jobs: await Promise.all(
          jobs.map(async ({ row, ...rest }) => ({ ...rest, job: await view.show(row, linkSeconds, keyId) })),
        ),
        nextCursor,
      };
    },

    async listUsage(request: ListUsageRequest, { trailers }: CallContext): Promise<ListUsageResponse> {
      const { accountId } = await gate.admit(request.caller, trailers);
      return { entries: await readUsage(database.fast, accountId, request.range, request.limit) };
    },

    async summarizeUsage(
      request: SummarizeUsageRequest,
      { trailers }: CallContext,
    ): Promise<SummarizeUsageResponse> {
      const { accountId } = await gate.admit(request.caller, trailers);
      return { summary: await summarizeUsage(database.fast, accountId, request.range) };
    },

    async listSpendDays(
      { caller, days }: ListSpendDaysRequest,
      { trailers }: CallContext,
    ): Promise<ListSpendDaysResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return { days: await spendByDay(database.fast, accountId, days) };
    },
  };
}

export type JobCalls = ReturnType<typeof createJobCalls>;
