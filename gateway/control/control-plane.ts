import { type Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { ApiError } from '@semblance/common/errors';
import { type CallSettings, call, createClient } from '@semblance/common/grpc/client';
import { fromServiceError } from '@semblance/common/grpc/status';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { inSpan } from '@semblance/common/tracing/tracing';
import {
  type AbortUploadRequest,
  type AuthorizeRequest,
  type BeginResumableUploadRequest,
  type BeginUploadRequest,
  type BeginUploadResponse,
  type Caller,
  type CancelJobRequest,
  type CancelJobResponse,
  type ChangeSessionRequest,
  type ChangeSessionResponse,
  type CheckCallerRequest,
  type CompleteUploadRequest,
  type CompleteUploadResponse,
  type ConnectSessionRequest,
  type ConnectSessionResponse,
  ControlServiceClient,
  type DeleteJobMediaRequest,
  type DeleteJobMediaResponse,
  type DeleteUploadRequest,
  type EndSessionRequest,
  type EndSessionResponse,
  type EstimateJobRequest,
  type EstimateJobResponse,
  type ExtendUploadRequest,
  type ExtendUploadResponse,
  type FindFacesRequest,
  type FindFacesResponse,
  type FindUsableKeysRequest,
  type FindUsableKeysResponse,
  type GetBalanceRequest,
  type GetBalanceResponse,
  type GetJobRequest,
  type GetPricingRequest,
  type GetPricingResponse,
  type Job,
  type ListAvatarVoicesRequest,
  type ListAvatarVoicesResponse,
  type ListJobsRequest,
  type ListJobsResponse,
  type ListReceiptsRequest,
  type ListReceiptsResponse,
  type ListSessionsRequest,
  type ListSessionsResponse,
  type ListUploadPartsRequest,
  type ListUploadPartsResponse,
  type ListUsageRequest,
  type ListUsageResponse,
  type ListVoicesRequest,
  type ListVoicesResponse,
  type OpenSessionRequest,
  type OpenSessionResponse,
  type PreviewJobRequest,
  type PreviewJobResponse,
  type ReadReceiptKeysRequest,
  type ReadReceiptKeysResponse,
  type RecordUploadPartRequest,
  type ResumableUpload,
  type SessionReport,
  type SessionVerdict,
  type SubmitJobRequest,
  type SubmitJobResponse,
  type SubmitJobResult,
  type SummarizeUsageRequest,
  type SummarizeUsageResponse,
  type TakeResumableUploadRequest,
} from '@semblance/proto/semblance/control/v1/control';
import { RATE_LIMIT_KEY, setRateLimitHeaders } from '../auth/rate-limit.ts';
import type { GatewayContext } from '../http/context.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { createGather, refusalIn } from './gather.ts';
import { createJobWatches, type OpenWatch, type WatchListener, type WatchRefusal } from './job-watches.ts';
import type { KeyCalls } from './key-calls.ts';
import { createMessageStream } from './message-stream.ts';
import { PLAIN_CALLS, type PlainCalls } from './plain-calls.ts';

/** Time after which a service without an answer counts as down, in ms. */
const TIMEOUT_MS = 5_000;
/**
 * Time limit of a submit, in ms. It exceeds the control plane's own limits (5 s to admit a submit, 5 s to carry it
 * out), because the control plane retracts a submit that it answered as failed.
 */
const SUBMIT_TIMEOUT_MS = 12_000;

/** Time limit of calls about all jobs of a batch, in ms. */
const BATCH_TIMEOUT_MS = 30_000;

/** Most reads in one message. */
const READS = 128;
/** Most messages of reads under way: one each to keep the gateway, the control plane and Postgres busy. */
const READS_AT_ONCE = 3;
/**
 * Most submits in one message, which may have 4 MiB; the fields of one submit are limited to about 30 kB together.
 */
const SUBMITS = 32;
const SUBMITS_AT_ONCE = 2;

/** Time that an inspection adds to an estimate, in ms: its limit of 5 s, and some for the answer. */
const INSPECTION_MS = 6_000;

/** Time of a search for faces beyond that of other calls, in ms: its limit of 25 s, and some for the answer. */
const FACES_MS = 26_000;

/** Time limit of opening a session, in ms, because it may wait for a slot that is about to be free. */
const OPEN_SESSION_MS = 15_000;

/** Time limit of a change of a session, in ms: beyond that of the agent, which fetches and prepares a picture. */
const CHANGE_SESSION_MS = 30_000;

/** Name and attributes of a submit's span, although the submit travels in a message with others. */
const SUBMIT = 'semblance.control.v1.ControlService/SubmitJob';
const SUBMIT_SPAN = {
  'rpc.system': 'grpc',
  'rpc.service': 'semblance.control.v1.ControlService',
  'rpc.method': 'SubmitJob',
};

/**
 * The control plane, called on behalf of one HTTP request: the request's id is passed on, and the rate limit is
 * returned as headers.
 */
export interface ControlPlane extends PlainCalls, KeyCalls {
  authorize(ctx: GatewayContext, request: AuthorizeRequest): Promise<unknown>;
  /** Returns those of the API keys that are still valid. */
  findUsableKeys(ctx: GatewayContext, request: FindUsableKeysRequest): Promise<FindUsableKeysResponse>;
  /** Authenticates without counting. A control plane of an earlier release cannot: the call that follows judges the key. */
  checkCaller(ctx: GatewayContext, request: CheckCallerRequest): Promise<void>;
  beginUpload(ctx: GatewayContext, request: BeginUploadRequest): Promise<BeginUploadResponse>;
  extendUpload(ctx: GatewayContext, request: ExtendUploadRequest): Promise<ExtendUploadResponse>;
  completeUpload(ctx: GatewayContext, request: CompleteUploadRequest): Promise<CompleteUploadResponse>;
  abortUpload(ctx: GatewayContext, request: AbortUploadRequest): Promise<unknown>;
  beginResumableUpload(ctx: GatewayContext, request: BeginResumableUploadRequest): Promise<ResumableUpload>;
  takeResumableUpload(ctx: GatewayContext, request: TakeResumableUploadRequest): Promise<ResumableUpload>;
  recordUploadPart(ctx: GatewayContext, request: RecordUploadPartRequest): Promise<unknown>;
  listUploadParts(ctx: GatewayContext, request: ListUploadPartsRequest): Promise<ListUploadPartsResponse>;
  submitJob(ctx: GatewayContext, request: SubmitJobRequest): Promise<SubmitJobResponse>;
  /** @param signal cancels the call, and with it an inspection */
  estimateJob(
    ctx: GatewayContext,
    request: EstimateJobRequest,
    signal: AbortSignal,
  ): Promise<EstimateJobResponse>;
  /** @param signal cancels the search */
  /** @param signal cancels the call, and with it the work of the agent */
  previewJob(
    ctx: GatewayContext,
    request: PreviewJobRequest,
    signal: AbortSignal,
  ): Promise<PreviewJobResponse>;
  findFaces(ctx: GatewayContext, request: FindFacesRequest, signal: AbortSignal): Promise<FindFacesResponse>;
  cancelJob(ctx: GatewayContext, request: CancelJobRequest): Promise<CancelJobResponse>;
  deleteJobMedia(ctx: GatewayContext, request: DeleteJobMediaRequest): Promise<DeleteJobMediaResponse>;
  deleteUpload(ctx: GatewayContext, request: DeleteUploadRequest): Promise<unknown>;
  listReceipts(ctx: GatewayContext, request: ListReceiptsRequest): Promise<ListReceiptsResponse>;
  /** Needs no key. */
  readReceiptKeys(ctx: GatewayContext, request: ReadReceiptKeysRequest): Promise<ReadReceiptKeysResponse>;
  getJob(ctx: GatewayContext, request: GetJobRequest): Promise<Job>;
  listJobs(ctx: GatewayContext, request: ListJobsRequest): Promise<ListJobsResponse>;
  /** Follows a job. The request is authenticated and counted like a read. */
  watchJob(
    ctx: GatewayContext,
    request: GetJobRequest & { caller: Caller },
    listener: WatchListener,
  ): Promise<OpenWatch>;
  /** @param signal cancels the call; everything set aside for the session by then is released */
  openSession(
    ctx: GatewayContext,
    request: OpenSessionRequest,
    signal: AbortSignal,
  ): Promise<OpenSessionResponse>;
  listVoices(ctx: GatewayContext, request: ListVoicesRequest): Promise<ListVoicesResponse>;
  listAvatarVoices(ctx: GatewayContext, request: ListAvatarVoicesRequest): Promise<ListAvatarVoicesResponse>;
  listSessions(ctx: GatewayContext, request: ListSessionsRequest): Promise<ListSessionsResponse>;
  endSession(ctx: GatewayContext, request: EndSessionRequest): Promise<EndSessionResponse>;
  /** Called for a socket, not for a request of the API, so it does not count against the rate limit. */
  connectSession(request: ConnectSessionRequest, requestId: string): Promise<ConnectSessionResponse>;
  /** Like `connectSession`. @param signal cancels the call, but not a change that the agent has begun */
  changeSession(
    request: ChangeSessionRequest,
    requestId: string,
    signal: AbortSignal,
  ): Promise<ChangeSessionResponse>;
  /** @returns a verdict for each report, in their order */
  reportSessions(reports: SessionReport[]): Promise<SessionVerdict[]>;
  getBalance(ctx: GatewayContext, request: GetBalanceRequest): Promise<GetBalanceResponse>;
  getPricing(ctx: GatewayContext, request: GetPricingRequest): Promise<GetPricingResponse>;
  listUsage(ctx: GatewayContext, request: ListUsageRequest): Promise<ListUsageResponse>;
  summarizeUsage(ctx: GatewayContext, request: SummarizeUsageRequest): Promise<SummarizeUsageResponse>;
  /** Resolves when the channel is connected. */
  connected(withinMs: number): Promise<void>;
  close(): void;
}

export interface ControlPlaneOptions {
  /** `host:port` */
  readonly address: string;
  /** Token of the installation. */
  readonly token?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly metrics: GatewayMetrics;
  readonly timeoutMs?: number;
}

type Method<Request, Response> = Parameters<typeof call<Request, Response>>[0];

export function connectControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { address, metrics, timeoutMs = TIMEOUT_MS } = options;
  const client = createClient(ControlServiceClient, address, options.token, options.tls?.to('control-plane'));

  const asker =
    <Request, Response>(method: Method<Request, Response>, withinMs = timeoutMs) =>
    (ctx: GatewayContext, request: Request, signal?: AbortSignal): Promise<Response> => {
      let reset: number | undefined;
      const onTrailers = (trailers: Metadata) => {
        const text = trailers.get(RATE_LIMIT_KEY)[0];
        if (typeof text === 'string' && !ctx.headerSent) reset = setRateLimitHeaders(ctx.res, text);
      };
      const { requestId, traceparent } = ctx.state;
      const settings = { timeoutMs: withinMs, requestId, traceparent, onTrailers, ...(signal && { signal }) };
      return call(method, request, settings).catch((error: ServiceError) => {
        // A cancel from this side is no failure of the control plane.
        signal?.throwIfAborted();
        throw refused(ctx, fromServiceError(error), reset);
      });
    };

  /** Counts an internal error, sets Retry-After for `rate_limited`, and returns the refusal. */
  const refused = (ctx: GatewayContext, refusal: ApiError, reset: number | undefined): ApiError => {
    if (refusal.code === 'internal_error') metrics.controlPlaneFailed();
    if (ctx.headerSent) return refusal;
    if (refusal.code === 'rate_limited') ctx.set('Retry-After', String(Math.max(1, reset ?? 60)));
    return refusal;
  };

  /** Makes a call that belongs to no request of the API. */
  async function ask<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    settings: Partial<CallSettings> = {},
  ): Promise<Response> {
    try {
      return await call(method, request, { timeoutMs, ...settings });
    } catch (error) {
      settings.signal?.throwIfAborted();
      const refusal = fromServiceError(error as ServiceError);
      if (refusal.code === 'internal_error') metrics.controlPlaneFailed();
      throw refusal;
    }
  }

  const readStream = createMessageStream({ open: () => client.readJobs() });
  const readJob = createGather({ timeoutMs, most: READS, atOnce: READS_AT_ONCE, send: readStream.ask });

  async function getJob(ctx: GatewayContext, request: GetJobRequest): Promise<Job> {
    const result = await readJob(request, ctx.state.requestId).catch((error: ApiError) => {
      throw refused(ctx, error, undefined);
    });
    const reset = limitsOf(ctx, result);
    if (result.outcome?.$case === 'job') return result.outcome.value;
    throw refused(ctx, refusalIn(result), reset);
  }

  /** Sets the headers of the rate limit. @returns seconds until its window ends */
  const limitsOf = (ctx: GatewayContext, { rateLimit }: { readonly rateLimit: string }) =>
    rateLimit && !ctx.headerSent ? setRateLimitHeaders(ctx.res, rateLimit) : undefined;

  const submitStream = createMessageStream({ open: () => client.submitJobs() });
  const submitWithinMs = Math.max(timeoutMs, SUBMIT_TIMEOUT_MS);
  const submitTogether = createGather({
    timeoutMs: submitWithinMs,
    most: SUBMITS,
    atOnce: SUBMITS_AT_ONCE,
    send: submitStream.ask,
  });

  // The host of a callback is resolved first, which may take long, and submits of a message are answered together.
  const submitAlone = asker(client.submitJob.bind(client), submitWithinMs);

  async function submitJob(ctx: GatewayContext, request: SubmitJobRequest): Promise<SubmitJobResponse> {
    if (request.callbackUrl !== undefined)
      return submitAlone(ctx, { ...request, requestId: ctx.state.requestId });
    const { requestId, traceparent: parent } = ctx.state;
    return inSpan(
      `call ${SUBMIT}`,
      { kind: 'client', parent, attributes: SUBMIT_SPAN },
      async (traceparent) => {
        let result: SubmitJobResult;
        try {
          result = await submitTogether({ ...request, requestId, traceparent }, requestId);
        } catch (error) {
          throw refused(ctx, error as ApiError, undefined);
        }
        const reset = limitsOf(ctx, result);
        if (result.outcome?.$case === 'submitted') return result.outcome.value;
        throw refused(ctx, refusalIn(result), reset);
      },
    );
  }

  const watches = createJobWatches({ client, timeoutMs });

  async function watchJob(
    ctx: GatewayContext,
    request: GetJobRequest & { caller: Caller },
    listener: WatchListener,
  ) {
    try {
      const opened = await watches.open({ ...request, requestId: ctx.state.requestId }, listener);
      if (!ctx.headerSent) setRateLimitHeaders(ctx.res, opened.rateLimit);
      return opened;
    } catch (error) {
      const refusal = error as WatchRefusal;
      throw refused(ctx, refusal, setRateLimitHeaders(ctx.res, refusal.rateLimit));
    }
  }

  const estimateJob = asker(client.estimateJob.bind(client));
  const beginResumable = asker(client.beginResumableUpload.bind(client));
  const takeResumable = asker(client.takeResumableUpload.bind(client));
  const inspectJob = asker(client.estimateJob.bind(client), timeoutMs + INSPECTION_MS);

  const check = asker(client.checkCaller.bind(client));

  const plainCalls = Object.fromEntries(
    PLAIN_CALLS.map((name) => [name, asker((client[name] as unknown as Method<never, never>).bind(client))]),
  ) as unknown as PlainCalls;

  return {
    ...plainCalls,
    // A batch is admitted in one transaction, however many jobs it has.
    submitBatch: asker(client.submitBatch.bind(client), BATCH_TIMEOUT_MS),
    estimateBatch: asker(client.estimateBatch.bind(client), BATCH_TIMEOUT_MS),
    cancelBatch: asker(client.cancelBatch.bind(client), BATCH_TIMEOUT_MS),
    watchJob,
    async checkCaller(ctx, request) {
      await check(ctx, request).catch((error: ApiError) => {
        if ((error.cause as Partial<ServiceError> | undefined)?.code !== status.UNIMPLEMENTED) throw error;
      });
    },
    authorize: asker(client.authorize.bind(client)),
    findUsableKeys: asker(client.findUsableKeys.bind(client)),
    beginUpload: asker(client.beginUpload.bind(client)),
    extendUpload: asker(client.extendUpload.bind(client)),
    completeUpload: asker(client.completeUpload.bind(client)),
    abortUpload: asker(client.abortUpload.bind(client)),
    beginResumableUpload: async (ctx, request) => stateIn(await beginResumable(ctx, request)),
    takeResumableUpload: async (ctx, request) => stateIn(await takeResumable(ctx, request)),
    recordUploadPart: asker(client.recordUploadPart.bind(client)),
    listUploadParts: asker(client.listUploadParts.bind(client)),
    submitJob,
    estimateJob: (ctx, request, signal) => (request.inspect ? inspectJob : estimateJob)(ctx, request, signal),
    previewJob: asker(client.previewJob.bind(client), timeoutMs + FACES_MS),
    findFaces: asker(client.findFaces.bind(client), timeoutMs + FACES_MS),
    cancelJob: asker(client.cancelJob.bind(client)),
    deleteJobMedia: asker(client.deleteJobMedia.bind(client)),
    deleteUpload: asker(client.deleteUpload.bind(client)),
    listReceipts: asker(client.listReceipts.bind(client)),
    readReceiptKeys: asker(client.readReceiptKeys.bind(client)),
    getJob,
    listJobs: asker(client.listJobs.bind(client)),
    openSession: asker(client.openSession.bind(client), Math.max(timeoutMs, OPEN_SESSION_MS)),
    listVoices: asker(client.listVoices.bind(client)),
    listAvatarVoices: asker(client.listAvatarVoices.bind(client)),
    listSessions: asker(client.listSessions.bind(client)),
    endSession: asker(client.endSession.bind(client)),
    connectSession: (request, requestId) => ask(client.connectSession.bind(client), request, { requestId }),
    changeSession: (request, requestId, signal) =>
      ask(client.changeSession.bind(client), request, { timeoutMs: CHANGE_SESSION_MS, requestId, signal }),
    reportSessions: async (reports) => (await ask(client.reportSessions.bind(client), { reports })).verdicts,
    getBalance: asker(client.getBalance.bind(client)),
    getPricing: asker(client.getPricing.bind(client)),
    listUsage: asker(client.listUsage.bind(client)),
    summarizeUsage: asker(client.summarizeUsage.bind(client)),
    listAccountKeys: asker(client.listAccountKeys.bind(client)),
    createAccountKey: asker(client.createAccountKey.bind(client)),
    setAccountKey: asker(client.setAccountKey.bind(client)),
    revokeAccountKey: asker(client.revokeAccountKey.bind(client)),
    getAccountCaps: asker(client.getAccountCaps.bind(client)),
    setAccountCaps: asker(client.setAccountCaps.bind(client)),
    connected: (withinMs) =>
      new Promise((resolve, reject) =>
        client.waitForReady(Date.now() + withinMs, (error) =>
          error
            ? reject(new Error(`the control plane at ${address} is not reachable`, { cause: error }))
            : resolve(),
        ),
      ),
    close() {
      watches.close();
      readStream.close();
      submitStream.close();
      client.close();
    },
  };
}

function stateIn({ upload }: { readonly upload?: ResumableUpload | undefined }): ResumableUpload {
  if (!upload) throw new Error('the control plane told no state of an upload');
  return upload;
}
