import type { handleBidiStreamingCall, ServerDuplexStream } from '@grpc/grpc-js';
import { createClientLog } from '@semblance/common/client-log';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Answered, Asked } from '@semblance/common/grpc/messages';
import type { Logger } from '@semblance/common/logging';
import type { Refusal } from '@semblance/proto/semblance/control/v1/control';

/** The answer to one refused request, as in GetJobResult. */
export interface Refused {
  outcome: { $case: 'refusal'; value: Refusal };
  rateLimit: string;
}

export interface MessageStreamsOptions<Request, Result> {
  /** Name of the call, for logs. */
  readonly method: string;
  /** Answers all requests of a message, in their order. An error refuses every one of them. */
  readonly answer: (requests: readonly Request[]) => Promise<Result[]>;
  readonly logger: Logger;
  /** Called for each message with its time in seconds, and `ok` or the code with which all of it failed. */
  readonly onAnswered: (seconds: number, code: string) => void;
}

export interface MessageStreams<Request, Result> {
  readonly handle: handleBidiStreamingCall<Asked<Request>, Answered<Result>>;
  /** Ends every stream after its accepted requests are answered; gateways open it again, elsewhere if needed. */
  end(): void;
}

/** Answers requests that come in messages of many. */
export function createMessageStreams<Request, Result>(
  options: MessageStreamsOptions<Request, Result | Refused>,
): MessageStreams<Request, Result | Refused> {
  const { method, logger, onAnswered } = options;
  const clientLog = createClientLog(logger);
  type Message = Asked<Request>;
  type Answer = Answered<Result | Refused>;
  const streams = new Set<{ end(): void }>();

  function handle(stream: ServerDuplexStream<Message, Answer>): void {
    let underWay = 0;
    let ending = false;
    const entry = {
      end() {
        ending = true;
        // Requests that are not taken stay unanswered, so that another process may be asked.
        stream.pause();
        if (underWay === 0) stream.end();
      },
    };
    const onGone = () => {
      streams.delete(entry);
    };
    streams.add(entry);
    stream.on('data', (message: Message) => {
      if (ending) return;
      underWay++;
      void answer(message).then((response) => {
        underWay--;
        if (!streams.has(entry)) return;
        // A gateway that reads slowly is asked for less instead of using more memory.
        if (!stream.write(response) && !ending) {
          stream.pause();
          stream.once('drain', () => ending || stream.resume());
        }
        if (ending && underWay === 0) stream.end();
      });
    });
    stream.on('error', onGone);
    stream.on('cancelled', onGone);
    stream.on('end', () => {
      onGone();
      stream.end();
    });
  }

  async function answer({ number, requests, requestId }: Message): Promise<Answer> {
    const began = performance.now();
    let results: (Result | Refused)[];
    let code = 'ok';
    try {
      results = await options.answer(requests);
    } catch (error) {
      code = error instanceof ApiError ? error.code : 'internal_error';
      const refusal = refused(error);
      if (refusal.outcome.value.code === 'internal_error')
        clientLog.error(
          method,
          { err: error, requestId, method },
          `cannot handle a message: ${describeError(error)}`,
        );
      results = requests.map(() => refusal);
    }
    logger.debug({ requestId, method, code, requests: requests.length }, 'call');
    onAnswered((performance.now() - began) / 1000, code);
    return { number, results };
  }

  return {
    handle,
    end() {
      for (const stream of streams) stream.end();
    },
  };
}

/** @param rateLimit that applied; empty: none */
export function refused(error: unknown, rateLimit = ''): Refused {
  const value =
    error instanceof ApiError && error.code !== 'internal_error'
      ? { code: error.code, message: error.message }
      : { code: 'internal_error', message: 'The service failed. Nothing is billed; try again.' };
  return { outcome: { $case: 'refusal', value }, rateLimit };
}
