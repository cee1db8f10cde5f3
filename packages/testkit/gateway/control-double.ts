import { hash } from 'node:crypto';
import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import { ApiError } from '@semblance/common/errors';
import { type CallContext, startGrpcServer, unary } from '@semblance/common/grpc/server';
import { newId } from '@semblance/common/ids';
import { silentLogger } from '@semblance/common/logging';
import { freePort } from '@semblance/local/process/ports';
import type { ObjectStore } from '@semblance/objects/store';
import {
  type AbortUploadRequest,
  type Caller,
  type CancelJobRequest,
  type ChangeSessionRequest,
  type CompleteUploadRequest,
  type ConnectSessionRequest,
  type ControlServiceServer,
  ControlServiceService,
  type FindUsableKeysRequest,
  type GetJobRequest,
  type GetJobResult,
  type GetPricingResponse,
  type Inspection,
  type Job,
  type JobState,
  type OpenSessionRequest,
  type ReadJobsRequest,
  type ReadJobsResponse,
  type ReportSessionsRequest,
  type SubmitJobRequest,
  type SubmitJobResponse,
  type SubmitJobResult,
  type SubmitJobsRequest,
  type SubmitJobsResponse,
  type WatchJobsRequest,
  type WatchJobsResponse,
  type WatchOpen,
} from '@semblance/proto/semblance/control/v1/control';
import type { UsageEntry } from '@semblance/proto/semblance/control/v1/usage';
import { SessionDouble } from './session-double.ts';

type WatchStream = ServerDuplexStream<WatchJobsRequest, WatchJobsResponse>;

export const TEST_KEY = 'sk_test_0123456789';

/**
 * In-memory control plane for tests of the gateway's routing and edge cases. It speaks the real protocol over a
 * real socket. Decisions of the control plane are tested with the real one.
 */
export class ControlDouble {
  readonly calls: { method: string; request: unknown; requestId: string | undefined }[] = [];
  /** Ids of the requests whose calls were cancelled before their answer. */
  readonly cancelled: (string | undefined)[] = [];
  readonly reserved = new Set<string>();
  readonly completed = new Map<string, CompleteUploadRequest>();
  readonly aborted: AbortUploadRequest[] = [];
  readonly submits: SubmitJobRequest[] = [];
  /** Keys that were judged before a body was read. */
  checks = 0;
  /** Messages in which submits came together. */
  submitMessages = 0;
  readonly jobs = new Map<string, Job>();
  usage: UsageEntry[] = [];
  pricing: GetPricingResponse = { currency: 'USD', version: 1n, effectiveAt: '', capabilities: [] };
  /** Bytes that room is set aside for; undefined: as of a release without such limits. */
  roomForUploads: bigint | undefined;
  /** Room that each extension of an upload sets aside in all. */
  roomLater: bigint[] = [];
  /** What an estimate with an inspection answers. */
  inspection: Inspection | undefined;
  /** Errors that methods throw, by method name. */
  readonly failures = new Map<string, Error>();
  /** Promises that methods wait for before their answer, by method name. */
  readonly pauses = new Map<string, Promise<unknown>>();
  /** Ids of API keys that were revoked. */
  readonly revoked = new Set<string>();
  /** Whether submits are answered as repeats. */
  replay = false;
  rateLimit = 'limit=60,remaining=59,reset=32';
  readonly live = new SessionDouble();
  /** Watches and the streams that they use. */
  readonly watches = new Set<{ readonly stream: WatchStream; readonly open: WatchOpen }>();
  readonly #store: ObjectStore;
  port = 0;
  close: () => Promise<void> = async () => {};

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  count(method: string): number {
    return this.calls.filter((call) => call.method === method).length;
  }

  /** Starts on a port outside the range of other tests, so that it can restart on the same one. */
  async start(port?: number): Promise<void> {
    port ??= await freePort();
    const server = await startGrpcServer({
      listen: { host: '127.0.0.1', port },
      services: [
        {
          definition: ControlServiceService,
          implementation: this.#implementation(),
          name: 'semblance.control.v1.ControlService',
        },
      ],
    });
    this.port = server.port;
    this.close = () => server.close(100);
  }

  #implementation(): ControlServiceServer & Record<string, never> {
    const store = this.#store;
    const on = <Request, Response>(
      method: string,
      handler: (request: Request) => Promise<Response> | Response,
    ) =>
      unary<Request, Response>(silentLogger(), async (request: Request, context: CallContext) => {
        // Counts against no limit, so it is no call of the caller's.
        if (method === 'checkCaller') this.checks++;
        else this.calls.push({ method, request, requestId: context.requestId });
        const { caller } = request as { caller?: Caller };
        if (caller) this.#authenticate(method, caller, context);
        context.signal.addEventListener('abort', () => this.cancelled.push(context.requestId));
        await this.pauses.get(method);
        const failure = this.failures.get(method);
        if (failure) throw failure;
        return handler(request);
      });
    return {
      authorize: on('authorize', () => ({ accountId: 'a', keyId: 'k' })),
      findUsableKeys: on('findUsableKeys', ({ keyIds }: FindUsableKeysRequest) => ({
        keyIds: keyIds.filter((keyId) => !this.revoked.has(keyId)),
      })),
      checkCaller: on('checkCaller', () => ({})),
      beginUpload: on('beginUpload', () => {
        const fileKey = newId('api/');
        this.reserved.add(fileKey);
        return { fileKey, accountId: 'acct', reservedBytes: this.roomForUploads };
      }),
      extendUpload: on('extendUpload', () => {
        const reservedBytes = this.roomLater.shift();
        if (reservedBytes === undefined) throw new ApiError('at_capacity', 'The account has no more room.');
        return { reservedBytes };
      }),
      completeUpload: on('completeUpload', async (request: CompleteUploadRequest) => {
        await store.info(request.fileKey);
        this.reserved.delete(request.fileKey);
        this.completed.set(request.fileKey, request);
        return { url: await store.signGet(request.fileKey, { expiresInSeconds: 60 }) };
      }),
      abortUpload: on('abortUpload', async (request: AbortUploadRequest) => {
        this.reserved.delete(request.fileKey);
        this.aborted.push(request);
        await store.delete(request.fileKey);
        return {};
      }),
      submitJob: on('submitJob', (request: SubmitJobRequest) => this.#accept(request)),
      estimateJob: on('estimateJob', () => ({
        holdMicros: 60_000n,
        rateMicros: 40_000n,
        minimumMicros: 20_000n,
        unit: 'image',
        balanceSufficient: true,
        inspection: this.inspection,
      })),
      cancelJob: on('cancelJob', ({ jobId }: CancelJobRequest) => {
        const job = this.jobs.get(jobId);
        if (!job) throw new ApiError('not_found', 'There is no such job.');
        return { job };
      }),
      listUsage: on('listUsage', () => ({ entries: this.usage })),
      summarizeUsage: on('summarizeUsage', () => ({
        summary: {
          succeeded: 3n,
          failed: 1n,
          inFlight: 2n,
          spentMicros: 120_000n,
          features: [{ feature: 'photo_swap', calls: 6n, spentMicros: 120_000n }],
        },
      })),
      watchJobs: (stream: WatchStream) => this.#watchJobs(stream),
      readJobs: (stream: ServerDuplexStream<ReadJobsRequest, ReadJobsResponse>) => {
        stream.on('data', async (request: ReadJobsRequest) => {
          this.calls.push({ method: 'readJobs', request, requestId: request.requestId });
          await this.pauses.get('readJobs');
          const failure = this.failures.get('readJobs');
          if (failure) return stream.emit('error', failure);
          const results = request.requests.map((one) => this.#readJob(one));
          stream.write({ number: request.number, results });
        });
        stream.on('end', () => stream.end());
        stream.on('error', () => {});
      },
      submitJobs: (stream: ServerDuplexStream<SubmitJobsRequest, SubmitJobsResponse>) => {
        stream.on('data', async ({ number, requests }: SubmitJobsRequest) => {
          this.submitMessages++;
          const results = await Promise.all(requests.map((request) => this.#submitOne(request)));
          stream.write({ number, results });
        });
        stream.on('end', () => stream.end());
        stream.on('error', () => {});
      },
      openSession: on('openSession', (request: OpenSessionRequest) => this.live.open(request)),
      connectSession: on('connectSession', (request: ConnectSessionRequest) => this.live.connect(request)),
      changeSession: on('changeSession', (request: ChangeSessionRequest) => this.live.change(request)),
      reportSessions: on('reportSessions', (request: ReportSessionsRequest) => this.live.report(request)),
      listVoices: on('listVoices', () => ({ voices: this.live.voices })),
      listAvatarVoices: on('listAvatarVoices', () => ({ voices: this.live.avatarVoices })),
      getBalance: on('getBalance', () => ({
        balanceMicros: 12_500_000n,
        totalSpentMicros: 1n,
        totalToppedUpMicros: 12_500_001n,
        spentThisWeekMicros: 1n,
        spentThisMonthMicros: 1n,
        spentThisYearMicros: 1n,
        heldMicros: 500_000n,
        reservedMicros: 2_500_000n,
        availableMicros: 10_000_000n,
      })),
      getPricing: on('getPricing', () => this.pricing),
    } as unknown as ControlServiceServer & Record<string, never>;
  }

  /** Sends the state of the job to each of its watches. */
  tell(jobId: string, state: Partial<JobState>): void {
    for (const { stream, open } of this.watches) {
      if (open.jobId !== jobId) continue;
      const value = {
        job: this.jobs.get(jobId),
        begun: false,
        progress: undefined,
        queue: undefined,
        ...state,
      };
      stream.write({ watch: open.watch, event: { $case: 'state', value } });
    }
  }

  /** Ends every watch of the job. */
  refuse(jobId: string, code: string): void {
    for (const watch of this.watches) {
      const { stream, open } = watch;
      if (open.jobId !== jobId) continue;
      this.watches.delete(watch);
      const refused = { refusal: { code, message: 'It is over.' }, rateLimit: '' };
      stream.write({ watch: open.watch, event: { $case: 'refused', value: refused } });
    }
  }

  #watchJobs(stream: WatchStream): void {
    const drop = (of: (open: WatchOpen) => boolean) => {
      for (const watch of this.watches)
        if (watch.stream === stream && of(watch.open)) this.watches.delete(watch);
    };
    stream.on('data', ({ request }: WatchJobsRequest) => {
      if (request?.$case === 'close') return drop(({ watch }) => watch === request.value);
      if (request?.$case !== 'open') return;
      const open = request.value;
      const { watch, jobId } = open;
      this.calls.push({ method: 'watchJob', request: open, requestId: open.requestId });
      const { outcome, rateLimit } = open.accountId
        ? { outcome: { $case: 'job' } as const, rateLimit: '' }
        : this.#readJob({ caller: open.caller, jobId });
      if (outcome?.$case === 'refusal') {
        const refused = { refusal: outcome.value, rateLimit };
        return void stream.write({ watch, event: { $case: 'refused', value: refused } });
      }
      this.watches.add({ stream, open });
      const opened = { accountId: open.accountId || 'acct', keyId: open.keyId || 'key', rateLimit };
      stream.write({ watch, event: { $case: 'opened', value: opened } });
      this.tell(jobId, {});
    });
    stream.on('error', () => drop(() => true));
    stream.on('cancelled', () => drop(() => true));
    stream.on('end', () => {
      drop(() => true);
      stream.end();
    });
  }

  #accept(request: SubmitJobRequest): SubmitJobResponse {
    this.submits.push(request);
    const id = newId('job-');
    return { id, status: 'queued', statusUrl: `/api/v1/jobs/${id}`, replayed: this.replay };
  }

  async #submitOne(request: SubmitJobRequest): Promise<SubmitJobResult> {
    const context = { trailers: new Metadata() };
    const limit = () => context.trailers.get('semblance-ratelimit')[0]?.toString() ?? '';
    this.calls.push({ method: 'submitJob', request, requestId: request.requestId });
    try {
      this.#authenticate('submitJob', request.caller ?? { keySha256: Buffer.alloc(0) }, context);
      await this.pauses.get('submitJob');
      const failure = this.failures.get('submitJob');
      if (failure) throw failure;
      return { outcome: { $case: 'submitted', value: this.#accept(request) }, rateLimit: limit() };
    } catch (error) {
      const { code = 'internal_error', message } = error as ApiError;
      return { outcome: { $case: 'refusal', value: { code, message } }, rateLimit: limit() };
    }
  }

  #readJob({ caller, jobId }: GetJobRequest): GetJobResult {
    const context = { trailers: new Metadata() };
    const limit = () => context.trailers.get('semblance-ratelimit')[0]?.toString() ?? '';
    try {
      this.#authenticate('getJob', caller ?? { keySha256: Buffer.alloc(0) }, context);
      const job = this.jobs.get(jobId);
      if (!job) throw new ApiError('not_found', 'There is no such job.');
      return { outcome: { $case: 'job', value: job }, rateLimit: limit() };
    } catch (error) {
      const { code, message } = error as ApiError;
      return { outcome: { $case: 'refusal', value: { code, message } }, rateLimit: limit() };
    }
  }

  #authenticate(method: string, caller: Caller, context: Pick<CallContext, 'trailers'>): void {
    if (method === 'getPricing' && caller.keySha256.length === 0 && !caller.sessionSha256) return;
    if (!caller.keySha256.equals(hash('sha256', TEST_KEY, 'buffer')))
      throw new ApiError('unauthorized', 'The API key is unknown or revoked.');
    if (method !== 'checkCaller') context.trailers.set('semblance-ratelimit', this.rateLimit);
  }
}
