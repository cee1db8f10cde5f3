import { hash, randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ConnectSessionResponse } from '@semblance/proto/semblance/control/v1/control';
import type { ControlPlane } from '../control/control-plane.ts';
import { toApiError } from '../http/envelope.ts';
import type { Agents } from './agents.ts';
import type { Handshake } from './handshake.ts';
import { type MediaFormat, mediaFormatOf } from './media-format.ts';
import { type StreamTarget, streamTarget } from './paths.ts';
import { openRelay, type Relay, RelayRefusal } from './relay.ts';
import type { Reporter } from './reporter.ts';
import { handshakeFault, WEBSOCKET_VERSION } from './socket-servers.ts';

export interface Admitted {
  readonly grant: ConnectSessionResponse;
  readonly relay: Relay;
  readonly format: MediaFormat;
  readonly target: Pick<StreamTarget, 'notices' | 'changes'> & {
    readonly sessionId: string;
    readonly connectionId: string;
  };
}

export interface AdmitOptions {
  readonly request: IncomingMessage;
  readonly handshake: Handshake;
  readonly control: Pick<ControlPlane, 'connectSession'>;
  readonly agents: Agents;
  readonly reporter: Pick<Reporter, 'end'>;
  readonly readyMs: number;
}

const SPOKEN = [`Sec-WebSocket-Version: ${WEBSOCKET_VERSION}`];
const UNKNOWN = 'There is no such session, or this is not its token.';

/**
 * Decides whether a client gets the one connection of its session, and opens the relay. Visible faults are refused
 * without a call. Returns undefined when it was refused; if the connection was used up by then, the session has
 * ended.
 */
export async function admit(options: AdmitOptions): Promise<Admitted | undefined> {
  const { request, handshake, control, agents, reporter, readyMs } = options;
  const {
    sessionId,
    token,
    notices = false,
    changes = false,
  } = streamTarget(request.url, request.headers.authorization) ?? {};
  const fault = handshakeFault(request);
  // A client with another version must be told the supported one (RFC 6455, section 4.2.2).
  if (fault) return void handshake.refuse('invalid_input', fault, undefined, SPOKEN);
  if (sessionId === undefined || token === undefined) return void handshake.refuse('unauthorized', UNKNOWN);

  const connectionId = randomUUID();
  const tokenSha256 = hash('sha256', token, 'buffer');
  let grant: ConnectSessionResponse;
  try {
    grant = await control.connectSession({ sessionId, tokenSha256, connectionId }, handshake.requestId);
  } catch (error) {
    // It is unknown then whether the session was admitted; for one that was not, the report changes nothing.
    if (toApiError(error).code === 'internal_error')
      reporter.end({ sessionId, connectionId, streamedMs: 0, over() {} }, undefined);
    return refuse(handshake, error);
  }

  const { client, release } = agents.acquire(grant.agentAddress, grant.agentCertificate);
  const open = {
    sessionId,
    incarnation: grant.agentIncarnation,
    ticket: grant.ticket,
    requestId: handshake.requestId,
  };
  try {
    const relay = await openRelay({
      client,
      open,
      timeoutMs: readyMs,
      signal: handshake.signal,
      over: release,
    });
    return { grant, relay, format: formatOf(relay), target: { sessionId, connectionId, notices, changes } };
  } catch (error) {
    const reason = error instanceof RelayRefusal ? error.reason : 'render_failed';
    reporter.end({ sessionId, connectionId, streamedMs: 0, over() {} }, reason);
    return refuse(handshake, error);
  }
}

/** @throws Error when the agent is ready for nothing that can be streamed */
function formatOf(relay: Relay): MediaFormat {
  try {
    return mediaFormatOf(relay.ready);
  } catch (error) {
    relay.close('render_failed');
    throw error;
  }
}

function refuse(handshake: Handshake, error: unknown): undefined {
  const { code, message, httpStatus } = toApiError(error);
  handshake.refuse(code, message, httpStatus);
  return undefined;
}
