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
import { type Gate, isNamed, usableKeys } from '../accounts/gate.ts';
import { readBalance } from '../billing/balance.ts';
import { readPricing } from '../billing/pricing.ts';
import type { FaceCalls } from '../faces/face-calls.ts';
import { isJobId } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import type { Submission } from '../jobs/submission.ts';
import type { Submitted } from '../jobs/submit.ts';
import type { Metrics } from '../metrics.ts';
import type { Database } from '../storage/database.ts';
import type { ResumableUploads } from '../uploads/resumable-uploads.ts';
import type { Uploads } from '../uploads/uploads.ts';
import type { BatchCalls } from './batch-calls.ts';
import type { ConsoleCalls } from './console-calls.ts';
import type { JobCalls } from './job-calls.ts';
import type { KeyCalls } from './key-calls.ts';
import type { MediaCalls } from './media-calls.ts';
import type { SessionCalls } from './session-calls.ts';
import { answerTo, submissionOf } from './together.ts';
import type { WebhookCalls } from './webhook-calls.ts';

export interface ControlServiceOptions {
  readonly logger: Logger;
  readonly database: Database;
  readonly gate: Gate;
  readonly uploads: Uploads;
  readonly resumable: ResumableUploads;
  readonly submit: (submission: Submission) => Promise<Submitted>;
  readonly view: JobView;
  readonly batchCalls: BatchCalls;
  readonly consoleCalls: ConsoleCalls;
  readonly jobCalls: JobCalls;
  readonly faceCalls: FaceCalls;
  readonly mediaCalls: MediaCalls;
  readonly keyCalls: KeyCalls;
  readonly sessionCalls: SessionCalls;
  readonly webhookCalls: WebhookCalls;
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
    batchCalls,
    consoleCalls,
    jobCalls,
    faceCalls,
    mediaCalls,
    keyCalls,
    sessionCalls,
    webhookCalls,
    metrics,
    now,
  } = options;

  async function submitJob(request: SubmitJobRequest, { trailers, traceparent }: CallContext) {
    const admission = await gate.admit(request.caller, trailers);
    return answerTo(await submit({ ...submissionOf(request, admission), traceparent }));
  }

  async function getJob(request: GetJobRequest, { trailers }: CallContext) {
    const jobId = isJobId(request.jobId) ? request.jobId : undefined;
    const { job, linkSeconds, keyId } = await gate.admit(request.caller, trailers, jobId);
    if (!job) throw new ApiError('not_found', 'There is no such job.');
    return { job: await view.show(job, linkSeconds, keyId) };
  }

  async function getBalance(request: GetBalanceRequest, { trailers }: CallContext) {
    const { accountId } = await gate.admit(request.caller, trailers);
    return readBalance(database.fast, accountId, now?.());
  }

  async function getPricing(request: GetPricingRequest, { trailers }: CallContext) {
    const sent = isNamed(request.caller);
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
    checkCaller: timed('CheckCaller', async ({ caller }) => {
      await gate.check(caller);
      return {};
    }),
    beginUpload: timed('BeginUpload', async ({ caller, ...size }, { trailers }) => {
      const { accountId, keyId } = await gate.admit(caller, trailers);
      return { ...(await uploads.begin(accountId, size)), accountId, keyId };
    }),
    extendUpload: timed('ExtendUpload', async ({ fileKey, accountId, moreBytes }) => ({
      reservedBytes: await uploads.extend(fileKey, accountId, moreBytes),
    })),
    completeUpload: timed('CompleteUpload', async (request, { requestId }) => ({
      url: await uploads.complete(request, requestId),
    })),
    abortUpload: timed('AbortUpload', async ({ fileKey, accountId }, { requestId }) => {
      await uploads.abort(fileKey, accountId, requestId);
      return {};
    }),
    findUsableKeys: timed('FindUsableKeys', async ({ keyIds }) => ({
      keyIds: [...(await usableKeys(database, keyIds))],
    })),
    beginResumableUpload: timed('BeginResumableUpload', async (request, { trailers }) => {
      const admitted = await gate.admit(request.caller, trailers);
      return { upload: await resumable.begin(admitted, request) };
    }),
    takeResumableUpload: timed('TakeResumableUpload', async (request, { trailers }) => {
      const admitted = await gate.admit(request.caller, trailers);
      return { upload: await resumable.take(admitted, request) };
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
    findFaces: timed('FindFaces', faceCalls.findFaces),
    previewJob: timed('PreviewJob', jobCalls.previewJob),
    cancelJob: timed('CancelJob', jobCalls.cancelJob),
    getJob: timed('GetJob', getJob),
    listJobs: timed('ListJobs', jobCalls.listJobs),
    submitBatch: timed('SubmitBatch', batchCalls.submitBatch),
    estimateBatch: timed('EstimateBatch', batchCalls.estimateBatch),
    getBatch: timed('GetBatch', batchCalls.getBatch),
    listBatches: timed('ListBatches', batchCalls.listBatches),
    listBatchJobs: timed('ListBatchJobs', batchCalls.listBatchJobs),
    cancelBatch: timed('CancelBatch', batchCalls.cancelBatch),
    readJobTexts: timed('ReadJobTexts', jobCalls.readJobTexts),
    watchJobs: options.watchJobs,
    deleteJobMedia: timed('DeleteJobMedia', mediaCalls.deleteJobMedia),
    deleteUpload: timed('DeleteUpload', mediaCalls.deleteUpload),
    listReceipts: timed('ListReceipts', mediaCalls.listReceipts),
    readReceiptKeys: timed('ReadReceiptKeys', mediaCalls.readReceiptKeys),
    listWebhookEndpoints: timed('ListWebhookEndpoints', webhookCalls.listWebhookEndpoints),
    getWebhookEndpoint: timed('GetWebhookEndpoint', webhookCalls.getWebhookEndpoint),
    createWebhookEndpoint: timed('CreateWebhookEndpoint', webhookCalls.createWebhookEndpoint),
    updateWebhookEndpoint: timed('UpdateWebhookEndpoint', webhookCalls.updateWebhookEndpoint),
    deleteWebhookEndpoint: timed('DeleteWebhookEndpoint', webhookCalls.deleteWebhookEndpoint),
    testWebhookEndpoint: timed('TestWebhookEndpoint', webhookCalls.testWebhookEndpoint),
    listWebhookDeliveries: timed('ListWebhookDeliveries', webhookCalls.listWebhookDeliveries),
    replayWebhookDelivery: timed('ReplayWebhookDelivery', webhookCalls.replayWebhookDelivery),
    showWebhookSecret: timed('ShowWebhookSecret', webhookCalls.showWebhookSecret),
    rotateWebhookSecret: timed('RotateWebhookSecret', webhookCalls.rotateWebhookSecret),
    readJobs: options.readJobs,
    openSession: timed('OpenSession', sessionCalls.openSession),
    connectSession: timed('ConnectSession', sessionCalls.connectSession),
    changeSession: timed('ChangeSession', sessionCalls.changeSession),
    reportSessions: timed('ReportSessions', sessionCalls.reportSessions),
    listSessions: timed('ListSessions', sessionCalls.listSessions),
    endSession: timed('EndSession', sessionCalls.endSession),
    listVoices: timed('ListVoices', sessionCalls.listVoices),
    listAvatarVoices: timed('ListAvatarVoices', sessionCalls.listAvatarVoices),
    getBalance: timed('GetBalance', getBalance),
    getPricing: timed('GetPricing', getPricing),
    listUsage: timed('ListUsage', jobCalls.listUsage),
    summarizeUsage: timed('SummarizeUsage', jobCalls.summarizeUsage),
    listSpendDays: timed('ListSpendDays', jobCalls.listSpendDays),
    listAccountKeys: timed('ListAccountKeys', keyCalls.listAccountKeys),
    createAccountKey: timed('CreateAccountKey', keyCalls.createAccountKey),
    setAccountKey: timed('SetAccountKey', keyCalls.setAccountKey),
    revokeAccountKey: timed('RevokeAccountKey', keyCalls.revokeAccountKey),
    getAccountCaps: timed('GetAccountCaps', keyCalls.getAccountCaps),
    setAccountCaps: timed('SetAccountCaps', keyCalls.setAccountCaps),
    openConsoleSession: timed('OpenConsoleSession', consoleCalls.openConsoleSession),
    listConsoleSessions: timed('ListConsoleSessions', consoleCalls.listConsoleSessions),
    endConsoleSession: timed('EndConsoleSession', consoleCalls.endConsoleSession),
  };
  return {
    name: 'semblance.control.v1.ControlService',
    definition: ControlServiceService,
    implementation,
  };
}
