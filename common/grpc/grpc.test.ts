import {
  type ClientDuplexStream,
  credentials,
  Metadata,
  makeGenericClientConstructor,
  type ServerDuplexStream,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import {
  ControlServiceClient,
  ControlServiceService,
  type GetJobRequest,
  type GetJobResponse,
} from '@semblance/proto/semblance/control/v1/control';
import { service as healthService } from 'grpc-health-check';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { ApiError } from '../errors.ts';
import { call, createClient } from './client.ts';
import { mayGoPlain, TLS_BY_NETWORK } from './internal-token.ts';
import { GrpcError, type GrpcServer, startGrpcServer, type UnaryHandler, unary } from './server.ts';
import { fromServiceError } from './status.ts';

let server: GrpcServer | undefined;
let client: ControlServiceClient | undefined;
const lines: string[] = [];
const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) });

/** Starts a server of the real service whose GetJob runs the given handler. */
async function serve(
  handler: UnaryHandler<GetJobRequest, GetJobResponse>,
  tokens: { asked?: string; sent?: string } = {},
) {
  server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.control.v1.ControlService',
        definition: ControlServiceService,
        token: tokens.asked,
        implementation: { getJob: unary(logger, handler) },
      },
    ],
  });
  client = createClient(ControlServiceClient, `127.0.0.1:${server.port}`, tokens.sent);
  return client.getJob.bind(client);
}

/** Starts a server of the real service's streams, which reports each new stream and each message. */
async function serveStreams(onMessage: () => void, tokens: { asked: string; sent: string }) {
  const handle = (stream: ServerDuplexStream<unknown, unknown>) => {
    stream.on('data', onMessage);
    stream.on('error', () => {});
    onMessage();
  };
  server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.control.v1.ControlService',
        definition: ControlServiceService,
        token: tokens.asked,
        implementation: { readJobs: handle, submitJobs: handle, watchJobs: handle },
      },
    ],
  });
  client = createClient(ControlServiceClient, `127.0.0.1:${server.port}`, tokens.sent);
  return client;
}

afterEach(async () => {
  client?.close();
  await server?.close();
  server = undefined;
  lines.length = 0;
});

const request: GetJobRequest = { caller: { keySha256: Buffer.alloc(32) }, jobId: 'job-1' };
const settings = { timeoutMs: 30_000 };

describe('a unary call', () => {
  it('carries the message, the request id and the trailers', async () => {
    const getJob = await serve(async ({ jobId }, { requestId, trailers }) => {
      trailers.set('semblance-ratelimit', 'limit=60');
      return { job: { id: `${jobId}/${requestId}`, status: 'queued' } };
    });
    let trailers = new Metadata();
    const onTrailers = (got: Metadata) => {
      trailers = got;
    };
    const { job } = await call(getJob, request, { ...settings, requestId: 'r-1', onTrailers });
    expect(job?.id).toBe('job-1/r-1');
    await expect.poll(() => trailers.get('semblance-ratelimit')).toEqual(['limit=60']);
  });

  it.each([
    'unauthorized',
    'insufficient_balance',
    'invalid_input',
    'unsupported_format',
    'input_too_large',
    'capability_unavailable',
    'not_found',
    'rate_limited',
    'at_capacity',
    'capacity_unavailable',
    'capacity_warming',
  ] as const)('brings a refusal as %s over the wire with its message and trailers', async (code) => {
    const getJob = await serve(async (_request, { trailers }) => {
      trailers.set('semblance-ratelimit', 'limit=1');
      throw new ApiError(code, 'because');
    });
    let limit: unknown;
    const failure = call(getJob, request, {
      ...settings,
      onTrailers: (trailers) => {
        limit = trailers.get('semblance-ratelimit')[0];
      },
    }).catch(fromServiceError);
    expect(await failure).toMatchObject({ name: 'ApiError', code, message: 'because' });
    expect(limit).toBe('limit=1');
    expect(lines).toEqual([]);
  });

  it('logs an unexpected failure with its causes and tells the caller none of them', async () => {
    const getJob = await serve(async () => {
      throw new Error('outer', { cause: new Error('password=hunter2') });
    });
    const failure = await call(getJob, request, settings).catch(fromServiceError);
    expect(failure).toMatchObject({ code: 'internal_error', httpStatus: 502 });
    expect((failure as Error).message).not.toContain('hunter2');
    expect(lines.join()).toContain('hunter2');
  });

  it('passes an internal refusal through with its own status', async () => {
    const getJob = await serve(async () => {
      throw new GrpcError(status.ABORTED, 'fenced');
    });
    const failure = (await call(getJob, request, settings).catch((error) => error)) as ServiceError;
    expect([failure.code, failure.details]).toEqual([status.ABORTED, 'fenced']);
  });

  it('is cancelled at the server when its signal aborts', async () => {
    const seen = Promise.withResolvers<unknown>();
    const began = Promise.withResolvers<void>();
    const getJob = await serve(
      (_request, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            seen.resolve(signal.reason);
            reject(signal.reason);
          });
          began.resolve();
        }),
    );
    const aborting = new AbortController();
    const failure = call(getJob, request, { ...settings, signal: aborting.signal }).catch((error) => error);
    await began.promise;
    aborting.abort();
    expect(((await failure) as ServiceError).code).toBe(status.CANCELLED);
    expect(await seen.promise).toBeInstanceOf(Error);
    expect(lines).toEqual([]);
  });

  it('ends at its deadline', async () => {
    const getJob = await serve(() => new Promise(() => undefined));
    const failure = (await call(getJob, request, { timeoutMs: 50 }).catch((error) => error)) as ServiceError;
    expect(failure.code).toBe(status.DEADLINE_EXCEEDED);
    expect(fromServiceError(failure)).toMatchObject({ code: 'internal_error', httpStatus: 502 });
  });

  it('reports a server that is not there as internal_error', async () => {
    client = createClient(ControlServiceClient, '127.0.0.1:1');
    const failure = await call(client.getJob.bind(client), request, { timeoutMs: 3_000 }).catch(
      fromServiceError,
    );
    expect(failure).toMatchObject({ code: 'internal_error', httpStatus: 502, retryable: true });
  });
});

describe('the token of an installation', () => {
  const answer = async () => ({ job: { id: 'job-1', status: 'queued' } });
  const asked = 'a token of the installation';

  it('lets a caller in that has it', async () => {
    const getJob = await serve(answer, { asked, sent: asked });
    expect((await call(getJob, request, settings)).job?.id).toBe('job-1');
  });

  it.each([undefined, 'another token altogether', `${asked} `, asked.toUpperCase()])(
    'keeps a caller out that sends %j, before its call is handled',
    async (sent) => {
      let handled = 0;
      const getJob = await serve(
        async () => {
          handled++;
          return {};
        },
        { asked, sent },
      );
      const failure = (await call(getJob, request, settings).catch((error) => error)) as ServiceError;
      expect(failure.code).toBe(status.UNAUTHENTICATED);
      expect(failure.details).not.toContain(asked);
      expect(handled).toBe(0);
    },
  );

  it('is asked of streams too, before anything that comes on them is handled', async () => {
    let handled = 0;
    const stranger = await serveStreams(() => handled++, { asked, sent: 'another token' });
    for (const stream of [stranger.readJobs(), stranger.submitJobs(), stranger.watchJobs()]) {
      (stream as ClientDuplexStream<object, object>).write({ number: 1, requests: [] });
      const failure = await new Promise<ServiceError>((resolve) => stream.once('error', resolve));
      expect(failure.code).toBe(status.UNAUTHENTICATED);
    }
    expect(handled).toBe(0);
  });

  it('leaves this machine by TLS alone, unless the owner says that the network encrypts', async () => {
    let handled = 0;
    await serve(
      async () => {
        handled++;
        return await answer();
      },
      { asked, sent: asked },
    );
    // Linux takes this address to the loopback interface; it stands for that of another machine.
    const other = createClient(ControlServiceClient, `0.0.0.0:${server?.port}`, asked);
    const stream = other.watchJobs();
    const [failure, broken] = await Promise.all([
      call(other.getJob.bind(other), request, settings).catch((error) => error as ServiceError),
      new Promise<ServiceError>((resolve) => stream.once('error', resolve)),
    ]);
    for (const each of [failure, broken]) {
      expect(each).toMatchObject({ code: status.UNAUTHENTICATED });
      expect((each as ServiceError).details).toContain('is not sent to 0.0.0.0:');
    }
    expect(handled).toBe(0);
    other.close();
    process.env[TLS_BY_NETWORK] = 'true';
    const told = createClient(ControlServiceClient, `0.0.0.0:${server?.port}`, asked);
    delete process.env[TLS_BY_NETWORK];
    expect((await call(told.getJob.bind(told), request, settings)).job?.id).toBe('job-1');
    told.close();
  });

  it.each([
    ['127.0.0.1:1', true],
    ['127.9.9.9:1', true],
    ['[::1]:1', true],
    ['localhost:1', true],
    ['10.1.2.3:9092', false],
    ['127.evil.example:1', false],
    ['localhost.example:1', false],
    ['[::ffff:10.0.0.1]:1', false],
    ['', false],
  ])('may go to %j without TLS: %s', (address, may) => {
    expect(mayGoPlain(address, {})).toBe(may);
    expect(mayGoPlain(address, { [TLS_BY_NETWORK]: 'false' })).toBe(may);
  });

  it('is not asked of the health service', async () => {
    await serve(answer, { asked });
    const Health = makeGenericClientConstructor(healthService, 'Health');
    const health = new Health(`127.0.0.1:${server?.port}`, credentials.createInsecure());
    const answered = await new Promise((resolve, reject) =>
      health.check?.({ service: '' }, (error: Error | null, response: unknown) =>
        error ? reject(error) : resolve(response),
      ),
    );
    health.close();
    expect(answered).toMatchObject({ status: 'SERVING' });
  });
});

describe('startGrpcServer', () => {
  it('says which address it could not take', async () => {
    await serve(async () => ({}));
    const again = startGrpcServer({ listen: { host: '127.0.0.1', port: server?.port ?? 0 }, services: [] });
    await expect(again).rejects.toThrow(/cannot listen on 127\.0\.0\.1:/);
  });
});
