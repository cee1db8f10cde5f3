import { type ServiceError, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import {
  AgentServiceClient,
  type AttemptRef,
  type AttemptStatus,
  type StartAttemptRequest,
  type WatchAttemptsResponse,
} from '@semblance/proto/semblance/agent/v1/agent';
import type { StartRefusal } from '../renderjob/types.ts';
import { createSnapshotStream } from './snapshot-stream.ts';

const START_TIMEOUT_MS = 5_000;
/** Longest wait for a stop, in ms. An engine may need a while to give up. */
const STOP_TIMEOUT_MS = 15_000;
const ACKNOWLEDGE_TIMEOUT_MS = 5_000;

export interface LinkOptions {
  readonly agent: string;
  readonly incarnation: string;
  readonly address: string;
  /** Certificate that the agent states, in PEM. */
  readonly certificate?: string | undefined;
  /** Internal token of the installation. */
  readonly token?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly logger: Logger;
  /** Receives all attempts of the process at the start of each stream. */
  readonly onSnapshot: (attempts: readonly AttemptStatus[]) => void;
  readonly onReport: (attempt: AttemptStatus) => void;
  /** The stream ended. Until the next snapshot, a missing report proves nothing. */
  readonly onDisconnected: () => void;
}

/** A connection to one process of an agent. */
export interface AgentLink {
  readonly agent: string;
  readonly incarnation: string;
  readonly address: string;
  readonly connected: boolean;
  /** Why the link is not connected, if it is not. */
  readonly fault: string | undefined;
  /** Keeps the stream open until aborted. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Resolves with undefined when the agent took the attempt, else with the refusal. @throws ServiceError when
   * neither is known
   */
  start(
    request: StartAttemptRequest,
    signal: AbortSignal,
    traceparent?: string,
  ): Promise<StartRefusal | undefined>;
  /** Resolves when exactly this process has said that the attempt is over. @throws when that is not known */
  stop(ref: AttemptRef, reason: string, signal: AbortSignal): Promise<void>;
  acknowledge(ref: AttemptRef, signal: AbortSignal): Promise<void>;
  close(): void;
}

export function createAgentLink(options: LinkOptions): AgentLink {
  const { agent, incarnation, address, logger } = options;
  const secure = options.tls?.to('agent', options.certificate);
  const client = createClient(AgentServiceClient, address, options.token, secure);
  const stream = createSnapshotStream<WatchAttemptsResponse>({
    open: () => client.watchAttempts({ incarnation }),
    of: 'its attempts',
    onSnapshot: ({ attempts }) => options.onSnapshot(attempts),
    onChange({ attempts }) {
      for (const attempt of attempts) options.onReport(attempt);
    },
    onDisconnected: options.onDisconnected,
    onFault: (reason) => logger.debug({ agent, incarnation, reason }, 'cannot open the stream of the agent'),
  });

  return {
    agent,
    incarnation,
    address,
    get connected() {
      return stream.current !== undefined;
    },
    get fault() {
      return stream.fault;
    },
    async run(signal) {
      await stream.run(signal);
      client.close();
    },
    async start(request, signal, traceparent) {
      try {
        const settings = { timeoutMs: START_TIMEOUT_MS, signal, traceparent };
        await call(client.startAttempt.bind(client), request, settings);
        return undefined;
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal) return refusal;
        throw error;
      }
    },
    async stop(ref, reason, signal) {
      const before = stream.current;
      if (before === undefined) throw new Error(`${agent} is not connected`);
      await call(
        client.stopAttempt.bind(client),
        { ref, reason, incarnation },
        { timeoutMs: STOP_TIMEOUT_MS, signal },
      );
      // An agent may ignore the incarnation. Another process might have answered if the connection broke.
      if (stream.current !== before)
        throw new Error(`the connection to ${agent} broke while it stopped an attempt`);
    },
    async acknowledge(ref, signal) {
      if (stream.current === undefined) return;
      await call(
        client.acknowledgeAttempt.bind(client),
        { ref, incarnation },
        { timeoutMs: ACKNOWLEDGE_TIMEOUT_MS, signal },
      );
    },
    close: () => client.close(),
  };
}

function refusalOf(error: unknown): StartRefusal | undefined {
  const { code, details: message } = error as ServiceError;
  switch (code) {
    case status.RESOURCE_EXHAUSTED:
      return { kind: 'busy', message };
    case status.FAILED_PRECONDITION:
      return { kind: 'refused', message };
    case status.INVALID_ARGUMENT:
      return { kind: 'unable', message };
    default:
      return undefined;
  }
}
