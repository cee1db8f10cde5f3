import { createHash, timingSafeEqual } from 'node:crypto';
import { isIPv4 } from 'node:net';
import {
  InterceptingCall,
  type Interceptor,
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';

/** Metadata key of the token by which a service proves that it belongs to the same installation. */
const TOKEN_KEY = 'semblance-internal-token';

/** Creates an interceptor that sends the token with every call of a client. */
export function sendToken(token: string): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set(TOKEN_KEY, token);
        next(metadata, listener);
      },
    });
}

/** Setting: `true` says that the network encrypts by itself, so that the token may travel without TLS of our own. */
export const TLS_BY_NETWORK = 'SEMBLANCE_TLS_BY_NETWORK';

/** Returns whether the token may be sent to a host:port without TLS: on this machine, or as the owner says. */
export function mayGoPlain(address: string, env: NodeJS.ProcessEnv = process.env): boolean {
  const host = address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  const isLoopback = host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
  return isLoopback || env[TLS_BY_NETWORK] === 'true';
}

/** Creates an interceptor that ends every call before anything is sent. */
export function sendNothing(address: string): Interceptor {
  const details = `The token of the installation is not sent to ${address} without TLS: set SEMBLANCE_TLS_DIR, or ${TLS_BY_NETWORK} if the network encrypts by itself.`;
  const refusal = () => ({ code: status.UNAUTHENTICATED, details, metadata: new Metadata() });
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      // The caller listens to its stream only once it has it.
      start: (_metadata, listener) => process.nextTick(() => listener.onReceiveStatus(refusal())),
      sendMessage() {},
      halfClose() {},
      cancel() {},
    });
}

/**
 * Creates an interceptor that refuses calls of the named service (`semblance.agent.v1.AgentService`) without the
 * token, before they reach the handler. It compares hashes, in constant time.
 */
export function askForToken(token: string, service: string): ServerInterceptor {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  const expected = digest(token);
  const isKnown = (metadata: Metadata) => {
    const [sent] = metadata.get(TOKEN_KEY);
    return typeof sent === 'string' && timingSafeEqual(digest(sent), expected);
  };
  return (method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        if (!method.path.startsWith(`/${service}/`)) return next();
        next({
          onReceiveMetadata(metadata, nextMetadata) {
            if (isKnown(metadata)) return nextMetadata(metadata);
            call.sendStatus({
              code: status.UNAUTHENTICATED,
              details: 'The call does not carry the token that the services of this installation share.',
            });
          },
        });
      },
    });
}
