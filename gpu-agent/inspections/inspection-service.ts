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
import { parseFindPeople, parseInspect, parsePreview } from './inspect-request.ts';
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
        throw statusOf(error);
      }
    }),
    findPeople: timed('FindPeople', async (request, { signal }) => {
      try {
        const { findings, refusal } = await inspections.inspect(parseFindPeople(request), signal);
        const { people = [], frames = 0 } = findings?.people ?? {};
        return {
          people: people.map(({ box, atUs, crop, notSource, notTarget, ...rest }) => ({
            ...rest,
            ...box,
            atUs: BigInt(Math.round(atUs)),
            notSource: [...notSource],
            notTarget: [...notTarget],
            crop: Buffer.from(crop, 'base64'),
          })),
          frames,
          refusal: refusal && { ...refusal, findings: undefined },
        };
      } catch (error) {
        throw statusOf(error);
      }
    }),
    preview: timed('Preview', async (request, { signal }) => {
      try {
        const { findings, refusal } = await inspections.inspect(parsePreview(request), signal);
        return {
          jpeg: Buffer.from(findings?.preview ?? '', 'base64'),
          refusal: refusal && { ...refusal, findings: undefined },
        };
      } catch (error) {
        throw statusOf(error);
      }
    }),
  };
  return {
    definition: InspectionServiceService,
    implementation: implementation as unknown as GrpcService['implementation'],
    name: 'semblance.agent.v1.InspectionService',
  };
}

function statusOf(error: unknown): unknown {
  if (error instanceof MalformedRequestError) return new GrpcError(status.INVALID_ARGUMENT, error.message);
  return error instanceof NotInspectedError ? new GrpcError(REFUSAL[error.code], error.message) : error;
}
