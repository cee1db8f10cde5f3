import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ListenAddress } from '@semblance/common/config';
import { listen } from '@semblance/common/health';
import { envelope } from './envelope.ts';
import { noteExpectContinue } from './request-body.ts';

export interface HttpServerOptions {
  readonly listen: ListenAddress;
  readonly handler: RequestListener;
  /** Called for requests that were refused before any handler. */
  readonly onRefused?: (refused: Refused) => void;
  /** Takes connections over from HTTP. Without it every request is an ordinary one, whatever it would upgrade to. */
  readonly upgrades?: Upgrades;
}

export interface Upgrades {
  wants(request: IncomingMessage): boolean;
  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void;
}

export interface Refused {
  readonly requestId: string;
  readonly status: number;
  readonly code: string;
  readonly reason: string;
}

export interface HttpServer {
  readonly port: number;
  connections(): Promise<number>;
  /** Stops accepting, lets requests end for up to `graceMs`, then cuts them. */
  close(graceMs: number): Promise<void>;
}

/** Longer than load balancers keep idle connections, so that they close first. */
const KEEP_ALIVE_MS = 75_000;
const HEADERS_MS = 20_000;
const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Starts the HTTP server, whose own refusals (malformed requests, too long or too slow headers) have the error
 * envelope too. Bodies have no overall time limit here, because an upload may take long; readers of bodies limit
 * it.
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: HEADERS_MS,
    requestTimeout: 0,
    connectionsCheckingInterval: 5_000,
    maxHeaderSize: MAX_HEADER_BYTES,
    // Node would refuse a request without Host with an empty body; it is harmless here.
    requireHostHeader: false,
    noDelay: true,
    shouldUpgradeCallback: (request) => options.upgrades?.wants(request) ?? false,
  });
  server.on('upgrade', (request, socket, head) => options.upgrades?.upgrade(request, socket as Socket, head));
  server.on('request', options.handler);
  server.on('checkContinue', (request, response) => {
    noteExpectContinue(request);
    options.handler(request, response);
  });
  const refuse = (status: number, code: string, reason: string, isNew = true) => {
    const requestId = randomUUID();
    if (isNew) options.onRefused?.({ requestId, status, code, reason });
    return { requestId, body: envelope(code, reason) };
  };
  server.on('checkExpectation', (_request, response) => {
    const reason = 'The Expect header may only read "100-continue".';
    const { requestId, body } = refuse(400, 'invalid_input', reason);
    response.writeHead(400, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'request-id': requestId,
      'x-content-type-options': 'nosniff',
      connection: 'close',
    });
    response.end(body);
  });
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    end(socket, '404 Not Found', refuse(404, 'not_found', 'This server is no proxy.'));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
    // The client left within a request, which has a log line of its own.
    const brokeOff = error.code === 'HPE_INVALID_EOF_STATE';
    end(socket, '400 Bad Request', refuse(400, 'invalid_input', messageFor(error.code), !brokeOff));
  });
  await listen(server, options.listen);
  return {
    port: (server.address() as AddressInfo).port,
    connections: () =>
      new Promise((resolve, reject) =>
        server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      ),
    close: (graceMs) => closeServer(server, graceMs),
  };
}

function messageFor(code: string | undefined): string {
  if (code === 'HPE_HEADER_OVERFLOW')
    return `The request's headers are longer than ${MAX_HEADER_BYTES / 1024} KiB.`;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request did not arrive in time.';
  return 'The request is not valid HTTP.';
}

function end(socket: Duplex, status: string, { requestId, body }: { requestId: string; body: string }): void {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nRequest-Id: ${requestId}\r\nX-Content-Type-Options: nosniff`;
  socket.on('error', () => {});
  socket.end(`${head}\r\nConnection: close\r\n\r\n${body}`, () => socket.destroy());
}

function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(cut);
      resolve();
    });
    server.closeIdleConnections();
  });
}
