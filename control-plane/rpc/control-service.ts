import { ApiError } from '@semblance/common/errors';
import { type CallContext, type GrpcService, unary } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import {
  type ControlServiceServer,
  ControlServiceService,
  type GetBalanceRequest,
  type GetJobRequest,
  type GetPricingRequest,
  type SubmitJobRequest,
} from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import { readBalance } from '../billing/balance.ts';
import { readPricing } from '../billing/pricing.ts';
import { isJobId } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import type { Submission } from '../jobs/submission.ts';
import type { Submitted } from '../jobs/submit.ts';
import type { Metrics } from '../metrics.ts';
import type { Database } from '../storage/database.ts';
import type { ResumableUploads } from '../uploads/resumable-uploads.ts';
import type { Uploads } from '../uploads/uploads.ts';
import type { JobCalls } from './job-calls.ts';
import type { MediaCalls } from './media-calls.ts';
import type { SessionCalls } from './session-calls.ts';
import { answerTo, submissionOf } from './together.ts';

export interface ControlServiceOptions {
  readonly logger: Logger;
  readonly database: Database;
  readonly gate: Gate;
  readonly uploads: Uploads;
  readonly resumable: ResumableUploads;
  readonly submit: (submission: Submission) => Promise<Submitted>;
  readonly view: JobView;
  readonly jobCalls: JobCalls;
  readonly mediaCalls: MediaCalls;
  readonly sessionCalls: SessionCalls;
  readonly metrics: Metrics;
  readonly watchJobs: ControlServiceServer['watchJobs'];
  readonly readJobs: ControlServiceServer['readJobs'];
  readonly submitJobs: ControlServiceServer['submitJobs'];
  /** Moment whose week, month and year a balance contains. Default: the database's clock. */
  readonly now?: () => Date;
}

/**
 * Creates the service of the gateway and the operator. Every method of the gateway except pricing without a key begins
 * at the gate.
 */
export function createControlService(options: ControlServiceOptions): GrpcService {
  const {
    logger,
    database,
    gate,
    uploads,
    resumable,
    submit,
    view,
    jobCalls,
    mediaCalls,
    sessionCalls,
    metrics,
    now,
  } = options;

  async function submitJob(request: SubmitJobRequest, { trailers, traceparent }: CallContext) {
    const { accountId } = await gate.admit(request.caller, trailers);
    return answerTo(await submit({ ...submissionOf(request, accountId), traceparent }));
  }

  async function getJob(request: GetJobRequest, { trailers }: CallContext) {
    const jobId = isJobId(request.jobId) ? request.jobId : undefined;
    const { job, linkSeconds } = await gate.admit(request.caller, trailers, jobId);
    if (!job) throw new ApiError('not_found', 'There is no such job.');
    return { job: await view.show(job, linkSeconds) };
  }

  async function getBalance(request: GetBalanceRequest, { trailers }: CallContext) {
    const { accountId } = await gate.admit(request.caller, trailers);
    return readBalance(database.fast, accountId, now?.());
  }

  async function getPricing(request: GetPricingRequest, { trailers }: CallContext) {
    const sent = request.caller !== undefined && request.caller.keySha256.length > 0;
    const accountId = sent ? (await gate.admit(request.caller, trailers)).accountId : undefined;
    return readPricing(database.fast, accountId);
  }

  const timed = <Request, Response>(
    method: string,
    handler: (request: Request, context: CallContext) => Promise<Response>,
  ) => unary(logger, metrics.timed(method, handler));

  const implementation: ControlServiceServer = {
    authorize: timed('Authorize', async ({ caller }, { trailers }) => {
      const { accountId, keyId } = await gate.admit(caller, trailers);
      return { accountId, keyId };
    }),
    beginUpload: timed('BeginUpload', async ({ caller }, { trailers }) => {
      const { accountId } = await gate.admit(caller, trailers);
      return { fileKey: await uploads.begin(accountId), accountId };
    }),
    completeUpload: timed('CompleteUpload', async (request, { requestId }) => ({
      url: await uploads.complete(request, requestId),
    })),
    abortUpload: timed('AbortUpload', async ({ fileKey, accountId }, { requestId }) => {
      await uploads.abort(fileKey, accountId, requestId);
      return {};
    }),
    beginResumableUpload: timed('BeginResumableUpload', async (request, { trailers }) => {
      const { accountId } = await gate.admit(request.caller, trailers);
      return { upload: await resumable.begin(accountId, request) };
    }),
    takeResumableUpload: timed('TakeResumableUpload', async (request, { trailers }) => {
      const { accountId } = await gate.admit(request.caller, trailers);
      return { upload: await resumable.take(accountId, request) };
    }),
    recordUploadPart: timed('RecordUploadPart', async (request) => {
      await resumable.record(request);
      return {};
    }),
    listUploadParts: timed('ListUploadParts', ({ fileKey, accountId }) =>
      resumable.parts(fileKey, accountId),
    ),
    submitJob: timed('SubmitJob', submitJob),
    submitJobs: options.submitJobs,
    estimateJob: timed('EstimateJob', jobCalls.estimateJob),
    cancelJob: timed('CancelJob', jobCalls.cancelJob),
    getJob: timed('GetJob', getJob),
    readJobTexts: timed('ReadJobTexts', jobCalls.readJobTexts),
    watchJobs: options.watchJobs,
    deleteJobMedia: timed('DeleteJobMedia', mediaCalls.deleteJobMedia),
    deleteUpload: timed('DeleteUpload', mediaCalls.deleteUpload),
    readJobs: options.readJobs,
    openSession: timed('OpenSession', sessionCalls.openSession),
    connectSession: timed('ConnectSession', sessionCalls.connectSession),
    reportSessions: timed('ReportSessions', sessionCalls.reportSessions),
    listSessions: timed('ListSessions', sessionCalls.listSessions),
    endSession: timed('EndSession', sessionCalls.endSession),
    listVoices: timed('ListVoices', sessionCalls.listVoices),
    getBalance: timed('GetBalance', getBalance),
    getPricing: timed('GetPricing', getPricing),
    listUsage: timed('ListUsage', jobCalls.listUsage),
    summarizeUsage: timed('SummarizeUsage', jobCalls.summarizeUsage),
  };
  return {
    name: 'semblance.control.v1.ControlService',
    definition: ControlServiceService,
    implementation,
  };
}
