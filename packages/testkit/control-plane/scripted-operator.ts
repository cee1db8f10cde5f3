import { status } from '@grpc/grpc-js';
import { ApiError, type ApiErrorCode } from '@semblance/common/errors';
import { GrpcError, startGrpcServer, unary } from '@semblance/common/grpc/server';
import { silentLogger } from '@semblance/common/logging';
import {
  type AllocateRequest,
  type AllocateResponse,
  AllocationServiceService,
} from '@semblance/proto/semblance/operator/v1/operator';

/** Answer of the operator to a call; see `startScriptedOperator`. */
export type Script = (request: AllocateRequest, signal: AbortSignal) => Promise<AllocateResponse>;

export const SLOT: AllocateResponse = { agent: 'agent-1', incarnation: 'one', address: '127.0.0.1:9' };

/** Starts an operator that follows a script and records its calls. */
export async function startScriptedOperator(script: Script = async () => SLOT) {
  const asked: AllocateRequest[] = [];
  let current = script;
  const logger = silentLogger();
  const server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.operator.v1.AllocationService',
        definition: AllocationServiceService,
        implementation: {
          allocate: unary<AllocateRequest, AllocateResponse>(logger, (request, { signal }) => {
            asked.push(request);
            return current(request, signal);
          }),
        },
      },
    ],
  });
  return {
    address: `127.0.0.1:${server.port}`,
    asked,
    does(next: Script) {
      current = next;
    },
    close: () => server.close(0),
  };
}

/** Script of an operator that is not the leader. */
export const notLeading: Script = () =>
  Promise.reject(new GrpcError(status.UNAVAILABLE, 'this operator does not lead'));

export function refusing(code: ApiErrorCode): Script {
  return () => Promise.reject(new ApiError(code, 'There is no slot.'));
}
