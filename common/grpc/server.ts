import { isIPv6 } from 'node:net';
import {
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { createClientLog } from '../client-log.ts';
import type { ListenAddress } from '../config.ts';
import { ApiError, describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { type Span, tracer } from '../tracing/tracing.ts';
import { askForToken } from './internal-token.ts';
import { REQUEST_ID_KEY, toStatus } from './status.ts';
import { listenTls, type TlsListener } from './tls/listener.ts';
import type { Tls } from './tls/tls.ts';
import { traceIn } from './trace-metadata.ts';

/** What a unary handler knows about its call besides the message. */
export interface CallContext {
  /** Aborts when the client cancels, the deadline passes, or the connection breaks. */
  readonly signal: AbortSignal;
  readonly metadata: Metadata;
  /** Trailers that are sent with the answer, also with a refusal. */
  readonly trailers: Metadata;
  readonly requestId: string | undefined;
  /** Address and port of the caller. */
  readonly peer: string;
  /** Continues the caller's trace. Undefined: there is none. */
  readonly traceparent?: string | undefined;
}

export type UnaryHandler<Request, Response> = (request: Request, context: CallContext) => Promise<Response>;

/**
 * Turns a handler that returns a promise into a gRPC handler. An ApiError becomes its status and code. Any other
 * error is logged with its causes and answered as `internal_error` without them.
 */
export function unary<Request, Response>(
  logger: Logger,
  handler: UnaryHandler<Request, Response>,
): handleUnaryCall<Request, Response> {
  const clientLog = createClientLog(logger);
  return (call: ServerUnaryCall<Request, Response>, callback) => {
    const aborted = new AbortController();
    call.once('cancelled', () => aborted.abort(new Error('the caller cancelled')));
    const trailers = new Metadata();
    const requestId = call.metadata.get(REQUEST_ID_KEY)[0]?.toString();
    const span = tracer && continued(call);
    const traceparent = span?.traceparent;
    const { metadata } = call;
    const peer = call.getPeer();
    const context = { signal: aborted.signal, metadata, trailers, requestId, peer, traceparent };
    const traced = logger.isLevelEnabled('debug');
    const began = traced ? performance.now() : 0;
    const note = (code: string) => {
      if (!traced) return;
      const ms = Math.round((performance.now() - began) * 10) / 10;
      logger.debug({ requestId, method: call.getPath(), code, ms }, 'call');
    };
    handler(call.request, context).then(
      (response) => {
        span?.end();
        note('ok');
        callback(null, response, trailers);
      },
      (error: unknown) => {
        span?.end(error);
        note(error instanceof ApiError ? error.code : 'internal_error');
        if (error instanceof ApiError && error.code !== 'internal_error')
          return callback(toStatus(error, trailers));
        if (isStatus(error)) return callback(error);
        if (!aborted.signal.aborted) {
          clientLog.error(
            call.getPath(),
            { err: error, requestId, method: call.getPath() },
            `call failed: ${describeError(error)}`,
          );
        }
        callback(
          toStatus(
            new ApiError('internal_error', 'The service failed. Nothing is billed; try again.'),
            trailers,
          ),
        );
      },
    );
  };
}

/** Starts the server's span of a call that carries a trace. Undefined: the call carries none. */
function continued(call: ServerUnaryCall<unknown, unknown>): Span | undefined {
  const parent = traceIn(call.metadata);
  if (parent === undefined) return undefined;
  const [, service = '', method = ''] = call.getPath().split('/');
  const attributes = { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': method };
  return tracer?.start(`${service}/${method}`, { kind: 'server', parent, attributes });
}

/** Refusal of an internal call for which the API has no code. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: status;
  readonly details: string;

  constructor(code: status, details: string) {
    super(details);
    this.code = code;
    this.details = details;
  }
}

function isStatus(error: unknown): error is GrpcError {
  return error instanceof GrpcError;
}

export interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
  /** Full name of the service for the health service, such as `semblance.control.v1.ControlService`. */
  readonly name: string;
  /** Token that callers must send (see internal-token). Undefined: no token is required. */
  readonly token?: string | undefined;
}

export interface GrpcServerOptions {
  readonly listen: ListenAddress;
  readonly services: readonly GrpcService[];
  /**
   * Admits the components that may call this one, by their certificates. Undefined: connections are not encrypted.
   */
  readonly tls?: Tls | undefined;
}

export interface GrpcServer {
  readonly port: number;
  /** Accepts no new calls, lets running calls end for up to `graceMs`, then cuts them off. */
  close(graceMs?: number): Promise<void>;
}

/** Starts a server with the services and the standard health service. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const server = new Server({
    'grpc.max_receive_message_length': 4 * 1024 * 1024,
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 5_000,
    interceptors: options.services.flatMap(({ name, token }) => (token ? [askForToken(token, name)] : [])),
  });
  const health = new HealthImplementation({ '': 'SERVING' });
  health.addToServer(server);
  for (const service of options.services) {
    server.addService(service.definition, service.implementation);
    health.setStatus(service.name, 'SERVING');
  }
  const { host, port } = options.listen;
  const address = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
  const listener = await bind(server, address, options).catch((cause) => {
    throw new Error(`cannot listen on ${address}`, { cause });
  });
  return {
    port: listener.port,
    close: (graceMs = 2_000) =>
      new Promise((resolve) => {
        listener.close();
        const cut = setTimeout(() => {
          server.forceShutdown();
          // `tryShutdown` never calls back for a connection that broke before it spoke HTTP/2.
          setImmediate(resolve);
        }, graceMs);
        server.tryShutdown(() => {
          clearTimeout(cut);
          resolve();
        });
      }),
  };
}

function bind(server: Server, address: string, { tls, listen }: GrpcServerOptions): Promise<TlsListener> {
  if (tls) return listenTls({ server, tls, listen });
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve({ port, close: () => {} }),
    );
  });
}
