import {
  type CallOptions,
  type ChannelOptions,
  type ClientOptions,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { tracer } from '../tracing/tracing.ts';
import { mayGoPlain, sendNothing, sendToken } from './internal-token.ts';
import { REQUEST_ID_KEY } from './status.ts';
import type { SecureChannel } from './tls/tls.ts';
import { traceCalls } from './trace-calls.ts';
import { setTrace } from './trace-metadata.ts';

/** Channel options of every client. They detect a broken connection and reconnect quickly. */
export const CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  'grpc.max_receive_message_length': 4 * 1024 * 1024,
};

type ClientConstructor<T> = new (
  address: string,
  channelCredentials: ReturnType<typeof credentials.createInsecure>,
  options: ClientOptions,
) => T;

/**
 * @param token sent with every call; see internal-token. Without `secure` it goes no further than this machine: other
 * calls fail with UNAUTHENTICATED, before anything is sent.
 * @param secure `tls.to(…)` of the component that is called. Undefined: the connection is not encrypted.
 */
export function createClient<T>(
  Client: ClientConstructor<T>,
  address: string,
  token?: string,
  secure?: SecureChannel,
): T {
  const plain = token !== undefined && secure === undefined;
  const sender = plain && !mayGoPlain(address) ? sendNothing(address) : token && sendToken(token);
  const interceptors = [...(sender ? [sender] : []), ...(tracer ? [traceCalls(tracer)] : [])];
  return new Client(address, secure?.credentials ?? credentials.createInsecure(), {
    ...CHANNEL_OPTIONS,
    ...secure?.options,
    interceptors,
  });
}

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

export interface CallSettings {
  /** Deadline of the call, in ms from its start. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  readonly requestId?: string;
  /** W3C trace context that the call continues. */
  readonly traceparent?: string | undefined;
  readonly metadata?: Metadata;
  /** Receives the trailers of the answer, also when the server refuses the call. */
  readonly onTrailers?: (trailers: Metadata) => void;
}

/**
 * Calls a unary method with a deadline. Aborting the signal cancels the call at the server.
 * @param method bound to its client, for example `client.getJob.bind(client)`
 * @throws the ServiceError of @grpc/grpc-js, which `fromServiceError` converts to an ApiError; the signal's reason
 * if it aborted before the call
 */
export function call<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  settings: CallSettings,
): Promise<Response> {
  const metadata = settings.metadata?.clone() ?? new Metadata();
  if (settings.requestId) metadata.set(REQUEST_ID_KEY, settings.requestId);
  if (settings.traceparent) setTrace(metadata, settings.traceparent);
  return new Promise((resolve, reject) => {
    const { signal } = settings;
    if (signal?.aborted) return reject(signal.reason);
    const running = method(
      request,
      metadata,
      { deadline: Date.now() + settings.timeoutMs },
      (error, response) => {
        signal?.removeEventListener('abort', cancel);
        if (error) {
          if (error.metadata) settings.onTrailers?.(error.metadata);
          reject(error);
        } else resolve(response);
      },
    );
    const cancel = () => running.cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    if (settings.onTrailers) {
      const report = settings.onTrailers;
      running.on('status', (end) => end.code === 0 && report(end.metadata));
    }
  });
}
