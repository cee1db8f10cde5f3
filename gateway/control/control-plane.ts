import type { Metadata, ServiceError } from '@grpc/grpc-js';
import type { ApiError } from '#common/errors.ts';
import { call, createClient } from '#common/grpc/client.ts';
import { fromServiceError } from '#common/grpc/status.ts';
import {
  type AbortUploadRequest,
  type AuthorizeRequest,
  type BeginUploadRequest,
  type BeginUploadResponse,
  type CompleteUploadRequest,
  type CompleteUploadResponse,
  ControlServiceClient,
  type GetBalanceRequest,
  type GetBalanceResponse,
  type GetJobRequest,
  type GetPricingRequest,
  type GetPricingResponse,
  type Job,
  type SubmitJobRequest,
  type SubmitJobResponse,
} from '#proto/semblance/control/v1/control.ts';
import { RATE_LIMIT_KEY, setRateLimitHeaders } from '../auth/rate-limit.ts';
import type { GatewayContext } from '../http/context.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { createJobReads, refusalIn } from './job-reads.ts';

/** A service that does not answer in this time counts as down. */
const TIMEOUT_MS = 5_000;

/** The control plane, asked on behalf of one HTTP request: its id goes along, the rate limit comes back as headers. */
export interface ControlPlane {
  authorize(ctx: GatewayContext, request: AuthorizeRequest): Promise<unknown>;
  beginUpload(ctx: GatewayContext, request: BeginUploadRequest): Promise<BeginUploadResponse>;
  completeUpload(ctx: GatewayContext, request: CompleteUploadRequest): Promise<CompleteUploadResponse>;
  abortUpload(ctx: GatewayContext, request: AbortUploadRequest): Promise<unknown>;
  submitJob(ctx: GatewayContext, request: SubmitJobRequest): Promise<SubmitJobResponse>;
  getJob(ctx: GatewayContext, request: GetJobRequest): Promise<Job>;
  getBalance(ctx: GatewayContext, request: GetBalanceRequest): Promise<GetBalanceResponse>;
  getPricing(ctx: GatewayContext, request: GetPricingRequest): Promise<GetPricingResponse>;
  /** Resolves when the channel is connected. */
  connected(withinMs: number): Promise<void>;
  close(): void;
}

export interface ControlPlaneOptions {
  /** `host:port` */
  readonly address: string;
  /** Token of the installation. */
  readonly token?: string | undefined;
  readonly metrics: GatewayMetrics;
  readonly timeoutMs?: number;
}

type Method<Request, Response> = Parameters<typeof call<Request, Response>>[0];

export function connectControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { address, metrics, timeoutMs = TIMEOUT_MS } = options;
  const client = createClient(ControlServiceClient, address, options.token);

  const asker =
    <Request, Response>(method: Method<Request, Response>) =>
    (ctx: GatewayContext, request: Request): Promise<Response> => {
      let reset: number | undefined;
      const onTrailers = (trailers: Metadata) => {
        const text = trailers.get(RATE_LIMIT_KEY)[0];
        if (typeof text === 'string' && !ctx.headerSent) reset = setRateLimitHeaders(ctx.res, text);
      };
      const settings = { timeoutMs, requestId: ctx.state.requestId, onTrailers };
      return call(method, request, settings).catch((error: ServiceError) => {
        throw refused(ctx, fromServiceError(error), reset);
      });
    };

  /** Notes a refusal and tells the client when to come back. */
  const refused = (ctx: GatewayContext, refusal: ApiError, reset: number | undefined): ApiError => {
    if (refusal.code === 'internal_error') metrics.controlPlaneFailed();
    if (ctx.headerSent) return refusal;
    if (refusal.code === 'rate_limited') ctx.set('Retry-After', String(Math.max(1, reset ?? 60)));
    return refusal;
  };

  const getJobs = client.getJobs.bind(client);
  const readJob = createJobReads({
    timeoutMs,
    send: (request, left, requestId) => call(getJobs, request, { timeoutMs: left, requestId }),
  });

  async function getJob(ctx: GatewayContext, request: GetJobRequest): Promise<Job> {
    const result = await readJob(request, ctx.state.requestId).catch((error: ApiError) => {
      throw refused(ctx, error, undefined);
    });
    const reset = result.rateLimit ? setRateLimitHeaders(ctx.res, result.rateLimit) : undefined;
    if (result.outcome?.$case === 'job') return result.outcome.value;
    throw refused(ctx, refusalIn(result), reset);
  }

  return {
    authorize: asker(client.authorize.bind(client)),
    beginUpload: asker(client.beginUpload.bind(client)),
    completeUpload: asker(client.completeUpload.bind(client)),
    abortUpload: asker(client.abortUpload.bind(client)),
    submitJob: asker(client.submitJob.bind(client)),
    getJob,
    getBalance: asker(client.getBalance.bind(client)),
    getPricing: asker(client.getPricing.bind(client)),
    connected: (withinMs) =>
      new Promise((resolve, reject) =>
        client.waitForReady(Date.now() + withinMs, (error) =>
          error
            ? reject(new Error(`the control plane at ${address} is not reachable`, { cause: error }))
            : resolve(),
        ),
      ),
    close: () => client.close(),
  };
}
