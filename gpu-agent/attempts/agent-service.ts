import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService, type UnaryHandler, unary } from '#common/grpc/server.ts';
import type { Logger } from '#common/logging.ts';
import {
  type AgentServiceServer,
  AgentServiceService,
  AttemptState,
  type AttemptStatus,
  type WatchAttemptsRequest,
  type WatchAttemptsResponse,
} from '#proto/semblance/agent/v1/agent.ts';
import type { AgentMetrics } from '../metrics.ts';
import type { Attempt, AttemptRef } from './attempt-table.ts';
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

/** AgentService of proto/semblance/agent/v1: what the operator asks of this process. */
export function createAgentService(options: AgentServiceOptions): AgentService {
  const { attempts, incarnation, logger, metrics } = options;
  const watches = new Set<() => void>();

  /** Measures a call: how long, and with which status it ended. */
  const timed = <Request, Response>(method: string, handler: UnaryHandler<Request, Response>) =>
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

  const addressed = (named: string) => {
    if (named === incarnation) return;
    throw new GrpcError(
      status.FAILED_PRECONDITION,
      `this process is ${incarnation}, not ${named.slice(0, 64) || 'the one without a name'}`,
    );
  };
  const refusable = async (act: () => Promise<void>) => {
    try {
      await act();
    } catch (error) {
      if (error instanceof MalformedRequestError) throw new GrpcError(status.INVALID_ARGUMENT, error.message);
      if (error instanceof StartRefusedError) throw new GrpcError(REFUSAL[error.code], error.message);
      throw error;
    }
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
      const stop = streamAttempts(call, attempts, () => watches.delete(end));
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

/**
 * Sends everything held, then what changes. While the caller does not read, only the names of changed attempts are
 * kept, each once, and their latest state is sent when it reads again: memory is bounded by the attempts held.
 */
function streamAttempts(
  call: ServerWritableStream<WatchAttemptsRequest, WatchAttemptsResponse>,
  attempts: Attempts,
  onEnd: () => void,
): () => void {
  const changed = new Map<string, AttemptRef>();
  let blocked = false;
  let scheduled = false;

  const flush = () => {
    scheduled = false;
    if (blocked || ended || changed.size === 0) return;
    const held = [...changed.values()]
      .map((ref) => attempts.get(ref))
      .filter((attempt) => attempt !== undefined);
    changed.clear();
    if (held.length > 0) blocked = !call.write({ snapshot: false, attempts: held.map(statusOf) });
  };
  let ended = false;
  const unsubscribe = attempts.subscribe((ref) => {
    changed.set(`${ref.jobUid}/${ref.attempt}`, ref);
    if (scheduled || blocked) return;
    // Changes of one turn travel together.
    scheduled = true;
    queueMicrotask(flush);
  });
  const stop = () => {
    if (ended) return;
    ended = true;
    unsubscribe();
    onEnd();
  };
  call.on('drain', () => {
    blocked = false;
    flush();
  });
  call.on('cancelled', stop);
  call.on('close', stop);
  call.on('error', stop);
  blocked = !call.write({ snapshot: true, attempts: attempts.list().map(statusOf) });
  return stop;
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
            stages: outcome.output.stages.map(({ name, milliseconds, engine = '' }) => ({
              name,
              milliseconds,
              engine,
            })),
            engine: outcome.output.engine,
          }
        : undefined,
    failure: outcome && outcome.state !== 'succeeded' ? outcome.failure : undefined,
    startedAtMs: BigInt(attempt.startedAtMs),
  };
}
