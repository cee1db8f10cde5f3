import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import {
  type AgentServiceServer,
  AgentServiceService,
  AttemptState,
  type AttemptStatus,
  type WatchAttemptsResponse,
} from '@semblance/proto/semblance/agent/v1/agent';
import type { Findings } from '@semblance/proto/semblance/engine/v1/findings';
import { assertAddressed, timedCalls } from '../grpc/timed.ts';
import { streamChanges, type WatchedThings } from '../grpc/watch.ts';
import type { AgentMetrics } from '../metrics.ts';
import type { Attempt, AttemptOutput, AttemptRef } from './attempt-table.ts';
import { type Attempts, StartRefusedError } from './attempts.ts';
import { MalformedRequestError, parseRef, parseStart } from './start-request.ts';

const REFUSAL: Record<StartRefusedError['code'], status> = {
  fenced: status.FAILED_PRECONDITION,
  draining: status.FAILED_PRECONDITION,
  'no-slot': status.RESOURCE_EXHAUSTED,
  'no-engine': status.INVALID_ARGUMENT,
  'no-lease': status.UNAVAILABLE,
};

const STATE = {
  succeeded: AttemptState.ATTEMPT_STATE_SUCCEEDED,
  failed: AttemptState.ATTEMPT_STATE_FAILED,
  interrupted: AttemptState.ATTEMPT_STATE_INTERRUPTED,
  stopped: AttemptState.ATTEMPT_STATE_STOPPED,
} as const;

export interface AgentServiceOptions {
  readonly attempts: Attempts;
  readonly incarnation: string;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, 'calls'>;
}

export interface AgentService extends GrpcService {
  /** Ends every watch, so that the server can close. */
  endWatches(): void;
  readonly watches: number;
}

/** Creates the AgentService of proto/semblance/agent/v1, which the operator calls. */
export function createAgentService(options: AgentServiceOptions): AgentService {
  const { attempts, incarnation, logger, metrics } = options;
  const watches = new Set<() => void>();

  const timed = timedCalls(logger, metrics);
  const addressed = (named: string) => assertAddressed(named, incarnation);
  const refusable = async (act: () => Promise<void>) => {
    try {
      await act();
    } catch (error) {
      if (error instanceof MalformedRequestError) throw new GrpcError(status.INVALID_ARGUMENT, error.message);
      if (error instanceof StartRefusedError) throw new GrpcError(REFUSAL[error.code], error.message);
      throw error;
    }
  };

  const watched: WatchedThings<AttemptRef, WatchAttemptsResponse> = {
    snapshot: () => ({ snapshot: true, attempts: attempts.list().map(statusOf) }),
    changes(refs) {
      const held = refs.flatMap((ref) => attempts.get(ref) ?? []);
      return held.length > 0 ? { snapshot: false, attempts: held.map(statusOf) } : undefined;
    },
    keyOf: (ref) => `${ref.jobUid}/${ref.attempt}`,
    subscribe: attempts.subscribe,
  };

  const implementation: AgentServiceServer = {
    startAttempt: timed('StartAttempt', async (request, { traceparent }) => {
      addressed(request.incarnation);
      await refusable(async () => attempts.start({ ...parseStart(request), traceparent }));
      return {};
    }),
    stopAttempt: timed('StopAttempt', async (request) => {
      if (request.incarnation !== undefined) addressed(request.incarnation);
      await refusable(async () => attempts.stop(parseRef(request.ref), request.reason));
      return {};
    }),
    acknowledgeAttempt: timed('AcknowledgeAttempt', async (request) => {
      if (request.incarnation !== undefined) addressed(request.incarnation);
      await refusable(async () => {
        const ref = parseRef(request.ref);
        if (attempts.acknowledge(ref) === 'running') {
          throw new GrpcError(status.FAILED_PRECONDITION, `attempt ${ref.attempt} of the job still runs`);
        }
      });
      return {};
    }),
    watchAttempts(call) {
      if (call.request.incarnation !== incarnation) {
        call.emit('error', {
          code: status.FAILED_PRECONDITION,
          details: `this process is ${incarnation}`,
        });
        return;
      }
      const end = () => {
        stop();
        call.end();
      };
      const stop = streamChanges(call, watched, () => watches.delete(end));
      watches.add(end);
    },
  };
  return {
    definition: AgentServiceService,
    implementation: implementation as unknown as GrpcService['implementation'],
    name: 'semblance.agent.v1.AgentService',
    endWatches() {
      for (const end of [...watches]) end();
    },
    get watches() {
      return watches.size;
    },
  };
}

function statusOf(attempt: Attempt): AttemptStatus {
  const { outcome, ref } = attempt;
  return {
    ref: { jobUid: ref.jobUid, attempt: ref.attempt },
    state: outcome ? STATE[outcome.state] : AttemptState.ATTEMPT_STATE_RUNNING,
    progress: attempt.progress,
    stage: attempt.stage,
    etaSeconds: attempt.etaSeconds,
    output:
      outcome?.state === 'succeeded'
        ? {
            key: outcome.output.key,
            contentType: outcome.output.contentType,
            sizeBytes: BigInt(outcome.output.sizeBytes),
            sha256Hex: outcome.output.sha256Hex,
            unit: outcome.output.unit,
            milliUnits: BigInt(outcome.output.milliUnits),
            size: outcome.output.size,
            stages: outcome.output.stages.map(({ name, milliseconds, engine = '' }) => ({
              name,
              milliseconds,
              engine,
            })),
            engine: outcome.output.engine,
            findings: findingsOf(outcome.output),
          }
        : undefined,
    failure:
      outcome && outcome.state !== 'succeeded'
        ? { ...outcome.failure, findings: findingsOf(outcome.failure) }
        : undefined,
    startedAtMs: BigInt(attempt.startedAtMs),
  };
}

/** Returns findings as a message. */
export function findingsOf({ findings }: Pick<AttemptOutput, 'findings'>): Findings | undefined {
  if (!findings) return undefined;
  const { faces, hints, models = [], options = {}, mapped = [] } = findings;
  return {
    faces: faces && { ...faces, left: faces.left.map((one) => ({ ...one })) },
    hints: hints.map((hint) => ({ ...hint })),
    models: models.map((model) => ({ ...model })),
    options: { ...options },
    mapped: mapped.map((one) => ({ ...one })),
  };
}
