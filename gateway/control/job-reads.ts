import type { ServiceError } from '@grpc/grpc-js';
import { ApiError, isApiErrorCode } from '#common/errors.ts';
import { fromServiceError } from '#common/grpc/status.ts';
import type {
  GetJobRequest,
  GetJobResult,
  GetJobsRequest,
  GetJobsResponse,
} from '#proto/semblance/control/v1/control.ts';

/** Reads in one message. */
const MAX_BATCH = 128;
/** Messages under way at once: while one is answered the next is on its way. */
const MAX_UNDER_WAY = 2;

export interface JobReadsOptions {
  /** One message to the control plane; rejects with a ServiceError. */
  readonly send: (request: GetJobsRequest, timeoutMs: number, requestId: string) => Promise<GetJobsResponse>;
  /** Longest time from a read's beginning to its answer. */
  readonly timeoutMs: number;
}

/** Reads one job; resolves to what the control plane says of it, refusals included. */
export type ReadJob = (request: GetJobRequest, requestId: string) => Promise<GetJobResult>;

interface Waiting {
  readonly request: GetJobRequest;
  readonly requestId: string;
  readonly deadline: number;
  readonly resolve: (result: GetJobResult) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Sends reads to the control plane together: those that arrive in one turn of the event loop share a message, and
 * while messages are under way the next ones gather. Nothing waits for company, so a single read is as quick as alone.
 */
export function createJobReads({ send, timeoutMs }: JobReadsOptions): ReadJob {
  let waiting: Waiting[] = [];
  let underWay = 0;
  let scheduled = false;

  const schedule = () => {
    if (scheduled || underWay >= MAX_UNDER_WAY || waiting.length === 0) return;
    scheduled = true;
    setImmediate(dispatch);
  };

  const dispatch = () => {
    scheduled = false;
    const batch = waiting.slice(0, MAX_BATCH);
    waiting = waiting.slice(MAX_BATCH);
    const [first] = batch;
    if (!first) return;
    underWay++;
    // The one that has waited longest sets the deadline of its message.
    const left = Math.max(1, first.deadline - Date.now());
    send({ requests: batch.map(({ request }) => request) }, left, first.requestId)
      .then(
        ({ results }) => {
          for (const [i, { resolve, reject }] of batch.entries()) {
            const result = results[i];
            if (result) resolve(result);
            else reject(new ApiError('internal_error', 'The service failed. Try again.', { upstream: true }));
          }
        },
        (error: ServiceError) => {
          const refusal = fromServiceError(error);
          for (const { reject } of batch) reject(refusal);
        },
      )
      .finally(() => {
        underWay--;
        schedule();
      });
    schedule();
  };

  return (request, requestId) =>
    new Promise((resolve, reject) => {
      waiting.push({ request, requestId, deadline: Date.now() + timeoutMs, resolve, reject });
      schedule();
    });
}

/** A refusal that came as data, as the error it is. */
export function refusalIn(result: GetJobResult): ApiError {
  const refusal = result.outcome?.$case === 'refusal' ? result.outcome.value : undefined;
  const code = isApiErrorCode(refusal?.code) ? refusal.code : 'internal_error';
  return new ApiError(code, refusal?.message || 'The service failed. Try again.', { upstream: true });
}
