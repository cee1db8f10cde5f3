import type { ServiceError } from '@grpc/grpc-js';
import { ApiError, isApiErrorCode } from '@semblance/common/errors';
import { fromServiceError } from '@semblance/common/grpc/status';
import type { Refusal } from '@semblance/proto/semblance/control/v1/control';
import type { MessageStream } from './message-stream.ts';

export interface GatherOptions<Request, Result> {
  /** One message to the control plane; rejects with a ServiceError. */
  readonly send: MessageStream<Request, Result>['ask'];
  /** Longest time from a request's beginning to its answer. */
  readonly timeoutMs: number;
  /** Requests in one message. */
  readonly most: number;
  /** Messages under way at once, 2 or more: while one is answered the next is on its way. */
  readonly atOnce: number;
}

/** Asks for one thing; resolves to what the control plane says of it, refusals included. */
export type Ask<Request, Result> = (request: Request, requestId: string) => Promise<Result>;

interface Waiting<Request, Result> {
  readonly request: Request;
  readonly requestId: string;
  readonly deadline: number;
  /** False once its own time was up, or it was answered. */
  pending: boolean;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Sends requests to the control plane together: those that arrive in one turn of the event loop share a message, and
 * while messages are under way the next ones gather. Nothing waits for company, so a single one is as quick as alone.
 * Each has its own time: one that has waited too long fails alone, and the message goes on for those that came later.
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
    // As long as any of it may wait; those before the newest give up by themselves.
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

/** A refusal that came as data, as the error it is. */
export function refusalIn({ outcome }: { readonly outcome?: Outcome | undefined }): ApiError {
  const refusal = outcome?.$case === 'refusal' ? (outcome.value as Refusal) : undefined;
  const code = isApiErrorCode(refusal?.code) ? refusal.code : 'internal_error';
  return new ApiError(code, refusal?.message || 'The service failed. Try again.', { upstream: true });
}
