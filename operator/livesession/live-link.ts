import { type ServiceError, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import {
  type ClaimSlotRequest,
  type EndReason,
  LiveServiceClient,
  type SessionStatus,
  type WatchSessionsResponse,
} from '@semblance/proto/semblance/live/v1/live';
import { createSnapshotStream } from '../agents/snapshot-stream.ts';

/** Longest wait for the answer to a claim, in ms. A caller waits, and other agents may be free. */
const CLAIM_TIMEOUT_MS = 1_500;
/** Longest wait for an end, in ms. An engine may need a while to let go. */
const END_TIMEOUT_MS = 10_000;

export interface LiveLinkOptions {
  readonly agent: string;
  readonly incarnation: string;
  readonly address: string;
  /** Certificate that the agent states, in PEM. */
  readonly certificate?: string | undefined;
  /** Internal token of the installation. */
  readonly token?: string | undefined;
  readonly tls?: Tls | undefined;
  /** Longest wait for a claim, in ms; then the agent counts as silent. Default 1,500. */
  readonly claimTimeoutMs?: number | undefined;
  readonly logger: Logger;
  /**
   * Receives all sessions of the process at the start of each stream. `openedAt` is performance.now() before the
   * stream was opened.
   */
  readonly onSnapshot: (sessions: readonly SessionStatus[], openedAt: number) => void;
  readonly onReport: (session: SessionStatus) => void;
  readonly onDisconnected: () => void;
}

export interface ClaimRefusal {
  /**
   * `busy`: no free slot. `refused`: it drains, is another process, or has ended this session. `unable`: it does not offer this live. `unknown`: no answer; the slot may be held.
   */
  readonly kind: 'busy' | 'refused' | 'unable' | 'unknown';
  readonly message: string;
}

/** Live part of the connection to one process of an agent. */
export interface LiveLink {
  readonly agent: string;
  readonly incarnation: string;
  readonly address: string;
  /** The stream has sent its snapshot, and sends each change. */
  readonly connected: boolean;
  run(signal: AbortSignal): Promise<void>;
  /** Resolves with undefined when the agent holds the slot, else with the refusal. */
  claim(
    request: ClaimSlotRequest,
    signal: AbortSignal,
    traceparent?: string,
  ): Promise<ClaimRefusal | undefined>;
  /** Resolves when this process does not hold the session and never will. @throws when that is not known */
  end(sessionId: string, reason: EndReason, signal: AbortSignal): Promise<void>;
}

export function createLiveLink(options: LiveLinkOptions): LiveLink {
  const { agent, incarnation, address, logger, claimTimeoutMs = CLAIM_TIMEOUT_MS } = options;
  const secure = options.tls?.to('agent', options.certificate);
  const client = createClient(LiveServiceClient, address, options.token, secure);
  const stream = createSnapshotStream<WatchSessionsResponse>({
    open: () => client.watchSessions({ incarnation }),
    of: 'its live sessions',
    onSnapshot: ({ sessions }, openedAt) => options.onSnapshot(sessions, openedAt),
    onChange({ sessions }) {
      for (const session of sessions) options.onReport(session);
    },
    onDisconnected: options.onDisconnected,
    onFault: (reason) =>
      logger.debug({ agent, incarnation }, `cannot watch live sessions of agent ${agent}: ${reason}`),
  });

  return {
    agent,
    incarnation,
    address,
    get connected() {
      return stream.current !== undefined;
    },
    async run(signal) {
      await stream.run(signal);
      client.close();
    },
    async claim(request, signal, traceparent) {
      try {
        const settings = { timeoutMs: claimTimeoutMs, signal, traceparent, requestId: request.requestId };
        await call(client.claimSlot.bind(client), request, settings);
        return undefined;
      } catch (error) {
        signal.throwIfAborted();
        return refusalOf(error as ServiceError);
      }
    },
    async end(sessionId, reason, signal) {
      try {
        const settings = { timeoutMs: END_TIMEOUT_MS, signal };
        await call(client.endSession.bind(client), { sessionId, incarnation, reason }, settings);
      } catch (error) {
        // Another process answers here, so the one that held the session is gone.
        if ((error as ServiceError).code !== status.FAILED_PRECONDITION) throw error;
      }
    },
  };
}

function refusalOf({ code, details, message }: ServiceError): ClaimRefusal {
  switch (code) {
    case status.RESOURCE_EXHAUSTED:
      return { kind: 'busy', message: details };
    case status.FAILED_PRECONDITION:
      return { kind: 'refused', message: details };
    case status.INVALID_ARGUMENT:
    case status.UNIMPLEMENTED:
      return { kind: 'unable', message: details };
    default:
      return { kind: 'unknown', message: details || message };
  }
}
