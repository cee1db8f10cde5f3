import type { CallContext } from '@semblance/common/grpc/server';
import type { Voice } from '@semblance/common/voices/voice';
import type {
  ChangeSessionRequest,
  ChangeSessionResponse,
  ConnectSessionRequest,
  ConnectSessionResponse,
  EndSessionRequest,
  EndSessionResponse,
  ListAvatarVoicesRequest,
  ListAvatarVoicesResponse,
  ListSessionsRequest,
  ListSessionsResponse,
  ListVoicesRequest,
  ListVoicesResponse,
  OpenSessionRequest,
  OpenSessionResponse,
  ReportSessionsRequest,
  ReportSessionsResponse,
  Session,
} from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import { listAvatarVoices } from '../jobs/avatar-voices.ts';
import type { SignedLinks } from '../media/signed-links.ts';
import type { SessionChanger } from '../sessions/change.ts';
import { type CertificateOf, connectSession } from '../sessions/connect.ts';
import { listSessions, requestOwnEnd, type SessionRow } from '../sessions/list-sessions.ts';
import type { Opener } from '../sessions/open.ts';
import type { Reports } from '../sessions/reports.ts';
import type { Database } from '../storage/database.ts';
import { listVoices } from '../voices/list-voices.ts';

export interface SessionCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  readonly opener: Opener;
  readonly report: Reports;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly links: SignedLinks;
  /** Deletes the LiveSession of a session whose end was requested. */
  readonly endSession: (sessionId: string) => void;
  readonly certificateOf: CertificateOf;
  readonly change: SessionChanger;
}

/** Creates the calls of the gateway about live sessions. */
export function createSessionCalls(options: SessionCallsOptions) {
  const { database, gate, opener, report, voices, links, endSession, certificateOf, change } = options;
  return {
    async openSession(
      request: OpenSessionRequest,
      { trailers, signal, requestId, traceparent }: CallContext,
    ): Promise<OpenSessionResponse> {
      const { accountId, keyId } = await gate.admit(request.caller, trailers);
      const { capability, durationMinutes, prompt, voiceId } = request;
      const opened = await opener.open(
        { accountId, keyId, capability, durationMinutes, prompt, voiceId },
        { signal, requestId, traceparent },
      );
      return {
        sessionId: opened.sessionId,
        sessionToken: opened.token,
        maxDurationSeconds: opened.maxSeconds,
        maxCostMicros: opened.maxCostMicros,
      };
    },

    connectSession: (request: ConnectSessionRequest): Promise<ConnectSessionResponse> =>
      connectSession(database, request, certificateOf),

    changeSession: (request: ChangeSessionRequest, { signal }: CallContext): Promise<ChangeSessionResponse> =>
      change(request, signal),

    reportSessions: async ({ reports }: ReportSessionsRequest): Promise<ReportSessionsResponse> => ({
      verdicts: await report(reports),
    }),

    async listSessions(
      { caller, open, limit, before }: ListSessionsRequest,
      { trailers }: CallContext,
    ): Promise<ListSessionsResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      const wanted = { accountId, open, limit: Math.min(500, Math.max(1, limit)), before };
      return { sessions: (await listSessions(database.fast, wanted)).map(sessionOf) };
    },

    async endSession(
      { caller, sessionId }: EndSessionRequest,
      { trailers }: CallContext,
    ): Promise<EndSessionResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      const { session, ends } = await requestOwnEnd(database.fast, { accountId, sessionId });
      if (ends) endSession(sessionId);
      return { session: sessionOf(session) };
    },

    async listVoices({ caller }: ListVoicesRequest, { trailers }: CallContext): Promise<ListVoicesResponse> {
      const { linkSeconds } = await gate.admit(caller, trailers);
      return { voices: await listVoices({ files: voices, sql: database.fast }, links, linkSeconds) };
    },

    async listAvatarVoices(
      { caller }: ListAvatarVoicesRequest,
      { trailers }: CallContext,
    ): Promise<ListAvatarVoicesResponse> {
      await gate.admit(caller, trailers);
      return listAvatarVoices(database.fast);
    },
  };
}

function sessionOf(row: SessionRow): Session {
  return {
    sessionId: row.id,
    capability: row.capability,
    status: row.status,
    createdAt: row.asked_at.toISOString(),
    endedAt: row.ended_at?.toISOString(),
    maxDurationSeconds: row.max_seconds,
    maxCostMicros: row.max_cost_micros,
    streamedMs: row.streamed_ms,
    chargedMicros: row.charged_micros ?? undefined,
    reason: row.reason ?? undefined,
  };
}

export type SessionCalls = ReturnType<typeof createSessionCalls>;
