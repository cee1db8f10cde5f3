import { InterceptingCall, type Interceptor, status } from '@grpc/grpc-js';
import type { Span, Tracer } from '../tracing/tracing.ts';
import { setTrace, traceIn } from './trace-metadata.ts';

/**
 * Creates an interceptor that makes a span of every call that carries a traceparent. The server continues that
 * span.
 */
export function traceCalls(tracer: Tracer): Interceptor {
  return (options, nextCall) => {
    const [, service = '', method = ''] = options.method_definition.path.split('/');
    return new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        const parent = traceIn(metadata);
        if (parent === undefined) return next(metadata, listener);
        const attributes = { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': method };
        const span: Span = tracer.start(`call ${service}/${method}`, { kind: 'client', parent, attributes });
        setTrace(metadata, span.traceparent);
        next(metadata, {
          onReceiveStatus(end, forward) {
            span.set({ 'rpc.grpc.status_code': end.code });
            span.end(end.code === status.OK ? undefined : new Error(status[end.code]));
            forward(end);
          },
        });
      },
    });
  };
}
