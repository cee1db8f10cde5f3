import { createHash, timingSafeEqual } from 'node:crypto';
import {
  InterceptingCall,
  type Interceptor,
  type Metadata,
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
