import { status } from '@grpc/grpc-js';
import { GrpcError, type UnaryHandler, unary } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import type { AgentMetrics } from '../metrics.ts';

/** Wraps handlers of unary calls to count their time and final status. */
export function timedCalls(logger: Logger, metrics: Pick<AgentMetrics, 'calls'>) {
  return <Request, Response>(method: string, handler: UnaryHandler<Request, Response>) =>
    unary<Request, Response>(logger, async (request, context) => {
      const end = metrics.calls.startTimer({ method });
      try {
        const response = await handler(request, context);
        end({ status: 'OK' });
        return response;
      } catch (error) {
        end({ status: status[error instanceof GrpcError ? error.code : status.INTERNAL] });
        throw error;
      }
    });
}

/** @throws GrpcError FAILED_PRECONDITION when the call addresses another process */
export function assertAddressed(named: string, incarnation: string): void {
  if (named === incarnation) return;
  throw new GrpcError(
    status.FAILED_PRECONDITION,
    `this process is ${incarnation}, not ${named.slice(0, 64) || 'the one without a name'}`,
  );
}
