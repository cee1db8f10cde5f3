import type { ServiceError } from '@grpc/grpc-js';
import { ApiError, isApiErrorCode } from '@semblance/common/errors';
import { fromServiceError } from '@semblance/common/grpc/status';
import type { Refusal } from '@semblance/proto/semblance/control/v1/control';
import type { MessageStream } from './message-stream.ts';

export interface GatherOptions<Request, Result> {
  /** Sends one message to the control plane; rejects with a ServiceError. */
  readonly send: MessageStream<Request, Result>['ask'];
  /** Longest time from the start of a request to its answer, in ms. */
  readonly timeoutMs: number;
  /** Most requests in one message. */
  readonly most: number;
  /** Messages under way at once, 2 or more: while one is answered the next is on its way. */
  readonly atOnce: number;
}

/** Makes one request; resolves to the control plane's answer, including refusals. */
export type Ask<Request, Result> = (request: Request, requestId: string) => Promise<Result>;

interface Waiting<Request, Result> {
  readonly request: Request;
  readonly requestId: string;
  readonly deadline: number;
  /** False after it was answered or its own time limit passed. */
  pending: boolean;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Batches requests to the control plane. Requests that arrive in one turn of the event loop share a message, and
 * while messages are under way the next requests gather. No request waits for others, so a single one is as fast as
 * alone. Each has its own time limit: one that waited too long fails alone, and the message goes on for the later
 * ones.
 */
export function createGather<Request, Result>(options: GatherOptions<Request, Result>): Ask<Request, Result> {
  const { send, timeoutMs, most, atOnce } = options;
  type Entry = Waiting<Request, Result>;
  let waiting: Entry[] = [];
  let underWay = 0;
  let scheduled = false;

  const schedule = () => {
    if (scheduled || underWay >= atOnce || waiting.length === 0) return;
    scheduled = true;
    setImmediate(dispatch);
  };

  const dispatch = () => {
    scheduled = false;
    waiting = waiting.filter(({ pending }) => pending);
    const batch = waiting.slice(0, most);
    waiting = waiting.slice(most);
    const [first, last] = [batch[0], batch.at(-1)];
    if (!first || !last) return;
    underWay++;
    // The message lives as long as its newest request; older requests give up by themselves.
    const left = Math.max(1, last.deadline - Date.now());
    send(
      batch.map(({ request }) => request),
      left,
      first.requestId,
    )
      .then(
        (results) => {
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
      const end = () => {
        clearTimeout(timer);
        entry.pending = false;
      };
      const entry: Entry = {
        request,
        requestId,
        deadline: Date.now() + timeoutMs,
        pending: true,
        resolve(result) {
          end();
          resolve(result);
        },
        reject(error) {
          end();
          reject(error);
        },
      };
      const timer = setTimeout(() => entry.reject(noAnswer()), timeoutMs);
      waiting.push(entry);
      schedule();
    });
}

function noAnswer(): ApiError {
  return new ApiError(
    'internal_error',
    'A service behind the gateway did not answer in time. Nothing is billed; try again.',
    { upstream: true },
  );
}

interface Outcome {
  readonly $case: string;
  readonly value: unknown;
}

/** Converts a refusal that came as data into the error. */
export function refusalIn({ outcome }: { readonly outcome?: Outcome | undefined }): ApiError {
  const refusal = outcome?.$case === 'refusal' ? (outcome.value as Refusal) : undefined;
  const code = isApiErrorCode(refusal?.code) ? refusal.code : 'internal_error';
  return new ApiError(code, refusal?.message || 'The service failed. Try again.', {
    upstream: true,
    retryAfterSeconds: refusal?.retryAfterSeconds,
  });
}
