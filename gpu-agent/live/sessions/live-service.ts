import { status } from '@grpc/grpc-js';
import { GrpcError, type GrpcService } from '@semblance/common/grpc/server';
import { fromEndReason, toEndReason } from '@semblance/common/live-session';
import type { Logger } from '@semblance/common/logging';
import { ChangeRefusedError, LiveSettingsError } from '@semblance/engine-api/live-engine';
import {
  type ChangeSessionRequest,
  type ChangeSessionResponse,
  type LiveServiceServer,
  LiveServiceService,
  SessionState,
  type SessionStatus,
  type WatchSessionsResponse,
} from '@semblance/proto/semblance/live/v1/live';
import { MalformedRequestError } from '../../attempts/start-request.ts';
import { assertAddressed, timedCalls } from '../../grpc/timed.ts';
import { streamChanges, type WatchedThings } from '../../grpc/watch.ts';
import type { AgentMetrics } from '../../metrics.ts';
import { serveRelay } from '../relay/relay.ts';
import { parseChange, parseClaim, parseSessionId } from './claim-request.ts';
import type { LiveSessions } from './live-sessions.ts';
import { ClaimRefusedError, SessionNotReadyError } from './refusals.ts';
import type { SamplePictures } from './sampled-pictures.ts';
import type { LiveSession } from './session-table.ts';

const REFUSAL = {
  ended: status.FAILED_PRECONDITION,
  draining: status.FAILED_PRECONDITION,
  'other-ticket': status.FAILED_PRECONDITION,
  'no-slot': status.RESOURCE_EXHAUSTED,
  'no-engine': status.INVALID_ARGUMENT,
  'no-lease': status.UNAVAILABLE,
} as const satisfies Record<ClaimRefusedError['code'], status>;

const NOT_READY = {
  'not-ready': status.NOT_FOUND,
  busy: status.RESOURCE_EXHAUSTED,
} as const satisfies Record<SessionNotReadyError['code'], status>;

const STATE = {
  claimed: SessionState.SESSION_STATE_CLAIMED,
  connected: SessionState.SESSION_STATE_CONNECTED,
  streaming: SessionState.SESSION_STATE_STREAMING,
  ended: SessionState.SESSION_STATE_ENDED,
} as const;

export interface LiveServiceOptions {
  readonly sessions: LiveSessions;
  readonly incarnation: string;
  readonly samplePictures: SamplePictures;
  readonly logger: Logger;
  readonly metrics: Pick<AgentMetrics, 'calls'>;
}

export interface LiveService extends GrpcService {
  /** Ends every watch, so that the server can close. */
  endWatches(): void;
}

/** Creates the LiveService of proto/semblance/live/v1, which the operator and the gateways call. */
export function createLiveService(options: LiveServiceOptions): LiveService {
  const { sessions, incarnation, samplePictures, logger } = options;
  const timed = timedCalls(logger, options.metrics);
  const watches = new Set<() => void>();

  const refusable = async <T>(act: () => T | Promise<T>): Promise<T> => {
    try {
      return await act();
    } catch (error) {
      if (error instanceof MalformedRequestError || error instanceof LiveSettingsError)
        throw new GrpcError(status.INVALID_ARGUMENT, error.message);
      if (error instanceof ClaimRefusedError) throw new GrpcError(REFUSAL[error.code], error.message);
      if (error instanceof SessionNotReadyError) throw new GrpcError(NOT_READY[error.code], error.message);
      throw error;
    }
  };
  const change = async (request: ChangeSessionRequest): Promise<ChangeSessionResponse> => {
    try {
      const { note = '' } = await refusable(() => sessions.change(parseChange(request)));
      return { outcome: { $case: 'changed', value: { note } } };
    } catch (error) {
      if (!(error instanceof ChangeRefusedError)) throw error;
      const { code, message } = error;
      return { outcome: { $case: 'refused', value: { code, message } } };
    }
  };
  const watched: WatchedThings<string, WatchSessionsResponse> = {
    snapshot: () => ({ snapshot: true, sessions: sessions.list().map(statusOf) }),
    changes(ids) {
      const held = ids.flatMap((id) => sessions.get(id) ?? []);
      return held.length > 0 ? { snapshot: false, sessions: held.map(statusOf) } : undefined;
    },
    keyOf: (id) => id,
    subscribe: sessions.subscribe,
  };

  const implementation: LiveServiceServer = {
    claimSlot: timed('ClaimSlot', async (request) => {
      assertAddressed(request.incarnation, incarnation);
      await refusable(() => sessions.claim(parseClaim(request)));
      return {};
    }),
    endSession: timed('EndSession', async ({ sessionId, incarnation: named, reason }) => {
      assertAddressed(named, incarnation);
      await refusable(() =>
        sessions.end(parseSessionId(sessionId), {
          reason: fromEndReason(reason),
          message: 'the session was ended',
        }),
      );
      return {};
    }),
    changeSession: timed('ChangeSession', async (request) => {
      assertAddressed(request.incarnation, incarnation);
      return change(request);
    }),
    watchSessions(call) {
      if (call.request.incarnation !== incarnation) {
        call.emit('error', { code: status.FAILED_PRECONDITION, details: `this process is ${incarnation}` });
        return;
      }
      const end = () => {
        stop();
        call.end();
      };
      const stop = streamChanges(call, watched, () => watches.delete(end));
      watches.add(end);
    },
    relay: (call) => serveRelay(call, { sessions, incarnation, samplePictures, logger }),
  };
  return {
    definition: LiveServiceService,
    implementation: implementation as unknown as GrpcService['implementation'],
    name: 'semblance.live.v1.LiveService',
    endWatches() {
      for (const end of [...watches]) end();
    },
  };
}

function statusOf(session: LiveSession): SessionStatus {
  return {
    sessionId: session.id,
    capability: session.capability,
    state: STATE[session.state],
    streamedMs: BigInt(Math.round(session.streamedMs)),
    received: BigInt(session.received),
    converted: BigInt(session.converted),
    dropped: BigInt(session.dropped),
    reason: toEndReason(session.state === 'ended' ? session.end?.reason : undefined),
    goingAway: session.state === 'ended' && session.end?.goingAway === true,
    fault: (session.state === 'ended' && session.end?.fault) || '',
    rejected: (session.state === 'ended' && session.end?.rejected) || '',
  };
}
