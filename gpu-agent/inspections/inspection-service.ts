import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import {
  type InspectionServiceServer,
  InspectionServiceService,
} from '@semblance/proto/semblance/agent/v1/inspection';
import { findingsOf } from '../attempts/agent-service.ts';
import { MalformedRequestError } from '../attempts/start-request.ts';
import { timedCalls } from '../grpc/timed.ts';
import type { AgentMetrics } from '../metrics.ts';
import { parseInspect } from './inspect-request.ts';
import { type Inspections, NotInspectedError } from './inspections.ts';

export interface InspectionServiceOptions {
  readonly inspections: Inspections;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, 'calls'>;
}

const REFUSAL = {
  busy: status.RESOURCE_EXHAUSTED,
  unsupported: status.UNIMPLEMENTED,
  draining: status.UNAVAILABLE,
  timed_out: status.DEADLINE_EXCEEDED,
  failed: status.UNAVAILABLE,
} as const satisfies Record<NotInspectedError['code'], status>;

/** Creates the InspectionService of proto/semblance/agent/v1, which the control plane calls. */
export function createInspectionService(options: InspectionServiceOptions): GrpcService {
  const { inspections, logger, metrics } = options;
  const timed = timedCalls(logger, metrics);
  const implementation: InspectionServiceServer = {
    inspect: timed('Inspect', async (request, { signal }) => {
      try {
        const { findings, refusal } = await inspections.inspect(parseInspect(request), signal);
        return {
          findings: findingsOf({ findings }),
          refusal: refusal && { ...refusal, findings: undefined },
        };
      } catch (error) {
        if (error instanceof MalformedRequestError)
          throw new GrpcError(status.INVALID_ARGUMENT, error.message);
        if (error instanceof NotInspectedError) throw new GrpcError(REFUSAL[error.code], error.message);
        throw error;
      }
    }),
  };
  return {
    definition: InspectionServiceService,
    implementation: implementation as unknown as GrpcService['implementation'],
    name: 'semblance.agent.v1.InspectionService',
  };
}
