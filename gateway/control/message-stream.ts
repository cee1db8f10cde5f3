import { type ClientDuplexStream, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { Answered, Asked } from '@semblance/common/grpc/messages';

type Call<Request, Result> = ClientDuplexStream<Asked<Request>, Answered<Result>>;

export interface MessageStreamOptions<Request, Result> {
  /** Opens a stream to the control plane; connecting may take time. */
  readonly open: () => Call<Request, Result>;
}

export interface MessageStream<Request, Result> {
  /**
   * Sends requests in one message.
   * @param requestId of one of them, for the logs of the control plane
   * @returns the control plane's answer to each, in their order
   * @throws ServiceError when the stream breaks or there is no answer in time
   */
  ask(requests: Request[], timeoutMs: number, requestId: string): Promise<Result[]>;
  /** Breaks the stream; running requests fail. */
  close(): void;
}

interface Message<Request, Result> {
  readonly request: Asked<Request>;
  readonly resolve: (results: Result[]) => void;
  readonly reject: (error: ServiceError) => void;
  sentAt: number;
  /** Whether it was sent before, on a stream that has ended. */
  resent: boolean;
  /** The stream that carries it. */
  on?: Opened<Request, Result>;
}

interface Opened<Request, Result> {
  readonly call: Call<Request, Result>;
  readonly underWay: Map<number, Message<Request, Result>>;
  heardAt: number;
}

/**
 * Creates one stream for messages of requests, which the next message opens again when it has ended. Requests on a
 * stream that breaks fail. When the control plane ends a stream in order, it has not taken the unanswered requests,
 * so they are sent once more on a new stream. A stream that was silent for the time of a message gets no new
 * requests.
 */
export function createMessageStream<Request, Result>({
  open,
}: MessageStreamOptions<Request, Result>): MessageStream<Request, Result> {
  type Sent = Message<Request, Result>;
  let current: Opened<Request, Result> | undefined;
  let numbers = 0;

  function begin(): Opened<Request, Result> {
    const call = open();
    const opened: Opened<Request, Result> = { call, underWay: new Map(), heardAt: performance.now() };
    const { underWay } = opened;
    const leave = (): Sent[] => {
      if (current === opened) current = undefined;
      const left = [...underWay.values()];
      underWay.clear();
      return left;
    };
    call.on('data', ({ number, results }: Answered<Result>) => {
      opened.heardAt = performance.now();
      const message = underWay.get(number);
      underWay.delete(number);
      message?.resolve(results);
    });
    call.on('error', (error: ServiceError) => {
      for (const { reject } of leave()) reject(error);
    });
    // A stream that broke emits `end` after `error`, when nothing is left.
    call.on('end', () => {
      for (const message of leave()) {
        if (message.resent) message.reject(failure(status.UNAVAILABLE, 'the control plane ends'));
        else {
          message.resent = true;
          send(message);
        }
      }
    });
    return opened;
  }

  function send(message: Sent): void {
    current ??= begin();
    message.on = current;
    message.sentAt = performance.now();
    current.underWay.set(message.request.number, message);
    current.call.write(message.request);
  }

  function giveUp({ on, sentAt, request, reject }: Sent): void {
    reject(failure(status.DEADLINE_EXCEEDED, 'the control plane did not answer in time'));
    if (!on) return;
    on.underWay.delete(request.number);
    if (on.heardAt > sentAt) return;
    if (current === on) current = undefined;
    if (on.underWay.size === 0) on.call.cancel();
  }

  return {
    ask: (requests, timeoutMs, requestId) =>
      new Promise((resolve, reject) => {
        numbers = (numbers + 1) % 2 ** 32;
        const end = () => clearTimeout(timer);
        const message: Sent = {
          request: { number: numbers, requests, requestId },
          resolve(results) {
            end();
            resolve(results);
          },
          reject(error) {
            end();
            reject(error);
          },
          sentAt: 0,
          resent: false,
        };
        const timer = setTimeout(() => giveUp(message), timeoutMs);
        send(message);
      }),
    close: () => current?.call.cancel(),
  };
}

function failure(code: status, details: string): ServiceError {
  return Object.assign(new Error(details), { code, details, metadata: new Metadata() });
}
