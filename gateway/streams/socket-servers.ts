import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import * as wsModule from 'ws';
import { WebSocket, WebSocketServer } from 'ws';

/** Which `ws` exports, and its types do not know. */
const { subprotocol } = wsModule as unknown as { subprotocol: { parse(header: string): Set<string> } };

/** The one of RFC 6455. `ws` would take drafts before it, too. */
export const WEBSOCKET_VERSION = '13';

/** How long a client may take to answer a close frame. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Frames of one message. Messages are counted when they are whole, so this is what bounds frames: `ws` would take
 * 16,384, empty ones, too. Libraries that cut messages do so at 4 KiB and more.
 */
const MAX_PIECES = 256;

/** Of what `ws` closes by itself, for want of a reason of its own. */
const REASONS: Readonly<Record<number, string>> = {
  1002: 'protocol_error: the frames are not those of a WebSocket',
  1007: 'invalid_payload: a text that is no UTF-8',
  1008: 'too_fast: a message in too many pieces',
  1009: 'too_big: a message is larger than what is taken',
};

/**
 * Emits `closing` when the client's close frame has come: the socket itself may take its time to close. `ws` then
 * answers it, by this method and with the client's own code and reason; what it closes for faults has no reason.
 */
class StreamSocket extends WebSocket {
  override close(code?: number, reason?: string | Buffer): void {
    if (code === undefined) super.close();
    else super.close(code, reason ?? REASONS[code] ?? '');
    if (code === undefined || reason !== undefined) this.emit('closing');
  }
}

/** Makes WebSockets of upgraded connections; the largest message is a setting of each server of `ws`. */
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
        maxPayload,
        maxFragments: MAX_PIECES,
        closeTimeout: closeTimeoutMs,
        WebSocket: StreamSocket,
      } as ConstructorParameters<typeof WebSocketServer>[0]);
      // With a listener, `ws` leaves the answer to a handshake that is none to us.
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

/** Tells whether a request asks for a socket; what does not is an ordinary request. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Returns what is wrong with a handshake (RFC 6455, section 4.2.1), as a sentence; undefined: nothing. Of one that
 * asks for a socket it is all that `ws` refuses, so that no session is used up by one that is refused after all:
 * extensions are not read, since none is offered.
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
