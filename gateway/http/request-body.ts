import type { IncomingMessage, ServerResponse } from 'node:http';
import { type BodyLimits, createPace } from './pace.ts';

/** The client went away before its answer, so nobody is left to be told. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';
  readonly code = 'client_gone';
  readonly retryable = false;
}

/** Bytes read from the connection ahead of the consumer. */
const READ_AHEAD_BYTES = 256 * 1024;

const awaitingContinue = new WeakSet<IncomingMessage>();

/** Records a request with `Expect: 100-continue`, whose body is requested only when a handler wants it. */
export function noteExpectContinue(request: IncomingMessage): void {
  awaitingContinue.add(request);
}

/** Returns whether the client still waits for the request to send its body. */
export function awaitsContinue(request: IncomingMessage): boolean {
  return awaitingContinue.has(request);
}

/** Must be called before a body is read. */
export function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (awaitingContinue.delete(request)) response.writeContinue();
}

/**
 * Yields the body of a request, chunk by chunk, at the pace of the consumer. Ending early keeps the connection
 * open, so that a refusal can still be answered.
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
  // Uses events, because read() would copy the gathered chunks into one more buffer.
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
    // Without this listener, an error after the end of the reading would be unhandled.
    request.on('error', () => {});
  }
}

/**
 * Handles an answer that is given before the body was read to its end; must be called before the answer. Arriving
 * bytes are discarded for a while, so that a client that still sends can read the answer instead of a reset. Then
 * the connection is cut. If it is to be closed anyway, this side is closed with the answer.
 */
export function lingerAfter(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  if (request.complete || request.destroyed) return;
  const { socket } = request;
  const closing = !response.shouldKeepAlive || response.getHeader('Connection') === 'close';
  // Node calls this after the last answer of a connection; its own version cuts the connection at once.
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
        // This restores the method of the class, so that the connection goes on normally.
        Reflect.deleteProperty(socket, 'destroySoon');
      });
    request.on('error', () => {});
    request.resume();
  });
}
