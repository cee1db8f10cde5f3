import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { ClientLog } from '@semblance/common/client-log';
import { ApiError, type ApiErrorCode } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { AT_CAPACITY_RETRY_SECONDS, envelope } from '../http/envelope.ts';
import { SANE_REQUEST_ID } from '../http/observe.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { STREAMS_ROUTE } from './paths.ts';

/** One request for a socket, from its arrival until it is answered. */
export interface Handshake {
  readonly requestId: string;
  /** Aborted when the client went away before it was answered. */
  readonly signal: AbortSignal;
  /** Answers like any other request of the API, and closes. */
  refuse(code: ApiErrorCode, message: string, status?: number, headers?: readonly string[]): void;
  accepted(): void;
}

export interface HandshakeOptions {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  readonly logger: Logger;
  /** For requests that get no socket, since nothing bounds them. */
  readonly clientLog: ClientLog;
  readonly metrics: GatewayMetrics;
}

/** Time for a client to read a refusal, in ms. */
const LINGER_MS = 2_000;

/** Counts and logs as observe.ts does. Neither the session nor its token gets into a log line, a label or a span. */
export function beginHandshake(options: HandshakeOptions): Handshake {
  const { request, socket, logger, clientLog, metrics } = options;
  const started = performance.now();
  const presented = request.headers['request-id'];
  const requestId =
    typeof presented === 'string' && SANE_REQUEST_ID.test(presented) ? presented : randomUUID();
  const gone = new AbortController();
  const onClose = () => {
    gone.abort();
    done(499);
  };
  let isDone = false;
  metrics.began();
  socket.on('error', () => {});
  socket.once('close', onClose);

  function done(status: number, code?: string): void {
    if (isDone) return;
    isDone = true;
    socket.off('close', onClose);
    const ms = performance.now() - started;
    metrics.ended('GET', STREAMS_ROUTE, status, ms / 1000);
    const line = { requestId, method: 'GET', route: STREAMS_ROUTE, status, ms: Math.round(ms * 10) / 10 };
    if (status === 101) logger.info(line);
    else clientLog.info(`handshake ${status} ${code}`, code ? { ...line, code } : line);
  }

  return {
    requestId,
    signal: gone.signal,
    refuse(code, message, status = new ApiError(code, message).httpStatus, headers = []) {
      done(status, code);
      if (!socket.writable) return void socket.destroy();
      const body = envelope(code, message);
      const head = [
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
        'Content-Type: application/json; charset=utf-8',
        `Content-Length: ${Buffer.byteLength(body)}`,
        `Request-Id: ${requestId}`,
        'Cache-Control: no-store',
        'X-Content-Type-Options: nosniff',
        'Connection: close',
        ...(code === 'at_capacity' ? [`Retry-After: ${AT_CAPACITY_RETRY_SECONDS}`] : []),
        ...(status === 401 ? ['WWW-Authenticate: Bearer'] : []),
        ...headers,
      ];
      // Data from the client is discarded; closing with unread data could destroy the answer.
      socket.resume();
      socket.setTimeout(LINGER_MS, () => socket.destroy());
      socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroySoon());
    },
    accepted: () => done(101),
  };
}
