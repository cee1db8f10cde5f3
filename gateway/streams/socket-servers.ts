import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import * as wsModule from 'ws';
import { WebSocket, WebSocketServer } from 'ws';

/** `ws` exports this, but its types lack it. */
const { subprotocol } = wsModule as unknown as { subprotocol: { parse(header: string): Set<string> } };

/** The version of RFC 6455. `ws` would also accept earlier drafts. */
export const WEBSOCKET_VERSION = '13';

/** Time for a client to answer a close frame, in ms. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Most frames of one message. Messages are counted when they are complete, so this limits frames; `ws` would accept
 * 16,384, including empty ones. Libraries that split messages do so at 4 KiB and more.
 */
const MAX_PIECES = 256;

/** Reasons for closes by `ws` itself, which have none of their own. */
const REASONS: Readonly<Record<number, string>> = {
  1002: 'protocol_error: the frames are not those of a WebSocket',
  1007: 'invalid_payload: a text that is no UTF-8',
  1008: 'too_fast: a message in too many pieces',
  1009: 'too_big: a message is larger than what is taken',
};

/**
 * Emits `closing` when the client's close frame has arrived, because the socket itself may close later. `ws`
 * answers it by this method with the client's own code and reason; its closes for faults have no reason.
 */
class StreamSocket extends WebSocket {
  override close(code?: number, reason?: string | Buffer): void {
    if (code === undefined) super.close();
    else super.close(code, reason ?? REASONS[code] ?? '');
    if (code === undefined || reason !== undefined) this.emit('closing');
  }
}

/** Makes WebSockets from upgraded connections; each server of `ws` has its own largest message. */
export function createSocketServers(closeTimeoutMs = CLOSE_TIMEOUT_MS) {
  const servers = new Map<number, WebSocketServer>();

  function serverFor(maxPayload: number): WebSocketServer {
    let server = servers.get(maxPayload);
    if (!server) {
      server = new WebSocketServer({
        noServer: true,
        clientTracking: false,
        perMessageDeflate: false,
        autoPong: false,
        // None is spoken, so none is agreed to.
        handleProtocols: () => false,
        maxPayload,
        maxFragments: MAX_PIECES,
        closeTimeout: closeTimeoutMs,
        WebSocket: StreamSocket,
      } as ConstructorParameters<typeof WebSocketServer>[0]);
      // With a listener, `ws` leaves the answer to a bad handshake to us.
      server.on('wsClientError', () => {});
      servers.set(maxPayload, server);
    }
    return server;
  }

  return {
    /**
     * @returns undefined when the handshake is not valid after all, or the client is gone; nothing was answered then
     */
    accept(
      request: IncomingMessage,
      socket: Duplex,
      head: Buffer,
      maxPayload: number,
    ): WebSocket | undefined {
      let made: WebSocket | undefined;
      serverFor(maxPayload).handleUpgrade(request, socket, head, (ws) => {
        made = ws;
      });
      return made;
    },
  };
}

const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** Returns whether a request asks for a socket; others are ordinary requests. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Returns the fault of a handshake (RFC 6455, section 4.2.1), as a sentence; undefined if it has none. This covers
 * everything that `ws` refuses, so that a refused handshake uses up no session. Extensions are not read, because
 * none is offered.
 */
export function handshakeFault({ headers }: IncomingMessage): string | undefined {
  if (!KEY.test(headers['sec-websocket-key'] ?? '')) return 'The header Sec-WebSocket-Key is not valid.';
  const version = headers['sec-websocket-version'];
  if (version !== WEBSOCKET_VERSION) return 'Only version 13 of the WebSocket protocol is spoken.';
  const protocols = headers['sec-websocket-protocol'];
  if (protocols !== undefined && !isProtocolList(protocols))
    return 'The header Sec-WebSocket-Protocol is not a list of different names.';
  return undefined;
}

function isProtocolList(header: string): boolean {
  try {
    return subprotocol.parse(header).size > 0;
  } catch {
    return false;
  }
}
