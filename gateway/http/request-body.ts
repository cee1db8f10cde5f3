import type { IncomingMessage, ServerResponse } from 'node:http';
import { type BodyLimits, createPace } from './pace.ts';

/** The client went away before it had its answer; nobody is left to be told. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';
  readonly code = 'client_gone';
  readonly retryable = false;
}

/** States what is taken from the connection ahead of the consumer. */
const READ_AHEAD_BYTES = 256 * 1024;

const awaitingContinue = new WeakSet<IncomingMessage>();

/** Notes a request with `Expect: 100-continue`: its body is asked for only once a handler wants it. */
export function noteExpectContinue(request: IncomingMessage): void {
  awaitingContinue.add(request);
}

/** True while the client still waits to be told to send its body. */
export function awaitsContinue(request: IncomingMessage): boolean {
  return awaitingContinue.has(request);
}

/** Must be called before a body is read. */
export function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (awaitingContinue.delete(request)) response.writeContinue();
}

/**
 * The body of a request, chunk by chunk, at the pace the consumer reads it. Ending early leaves the connection open,
 * so that the refusal can still be answered.
 *
 * @throws ApiError `invalid_input` when the client is slower than the limits allow; ClientGoneError when the
 *   connection ends first
 */
export async function* requestBytes(
  request: IncomingMessage,
  response: ServerResponse,
  limits: BodyLimits,
): AsyncGenerator<Buffer> {
  askForBody(request, response);
  // By events, because read() would copy what has gathered into one more buffer.
  const queue: Buffer[] = [];
  let queued = 0;
  let wake = () => {};
  const pace = createPace(limits);
  const onData = (chunk: Buffer) => {
    pace.arrived(chunk.length);
    queue.push(chunk);
    queued += chunk.length;
    if (queued >= READ_AHEAD_BYTES) request.pause();
    wake();
  };
  const onEvent = () => wake();
  const events = ['end', 'close', 'error'] as const;
  for (const event of events) request.on(event, onEvent);
  request.on('data', onData);
  try {
    for (;;) {
      const chunk = queue.shift();
      if (chunk) {
        pace.check();
        queued -= chunk.length;
        if (queued < READ_AHEAD_BYTES && request.isPaused()) request.resume();
        yield chunk;
        continue;
      }
      if (request.complete && request.readableEnded) return;
      if (request.destroyed || request.errored)
        throw new ClientGoneError('the client went away', { cause: request.errored ?? undefined });
      const { ms, refusal } = pace.nextWait();
      const since = performance.now();
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => reject(refusal()), ms);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      wake = () => {};
      if (!request.readableEnded) pace.waited(performance.now() - since);
    }
  } finally {
    for (const event of events) request.off(event, onEvent);
    request.off('data', onData);
    request.pause();
    // An error that comes after nobody reads any more is not unhandled.
    request.on('error', () => {});
  }
}

/**
 * For an answer given before the body was read to its end, to be called before the answer is sent: what still arrives
 * is thrown away for a while, so that a client that is still sending gets to read the answer instead of a reset. Then
 * the connection is cut. Where it is to be closed anyway, our side of it is closed with the answer.
 */
export function lingerAfter(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  if (request.complete || request.destroyed) return;
  const { socket } = request;
  const closing = !response.shouldKeepAlive || response.getHeader('Connection') === 'close';
  // What Node calls after the last answer of a connection; its own would cut the connection at once.
  socket.destroySoon = () => {
    socket.end();
  };
  response.once('finish', () => {
    const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
    const forget = () => clearTimeout(timer);
    socket.once('close', forget);
    if (!closing)
      request.once('end', () => {
        forget();
        socket.off('close', forget);
        // Uncovers the method of the class: the connection goes on as if nothing had been.
        Reflect.deleteProperty(socket, 'destroySoon');
      });
    request.on('error', () => {});
    request.resume();
  });
}
