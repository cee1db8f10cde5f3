import type { CallContext } from '@semblance/common/grpc/server';
import type { Voice } from '@semblance/common/voices/voice';
import type {
  ConnectSessionRequest,
  ConnectSessionResponse,
  ListVoicesRequest,
  ListVoicesResponse,
  OpenSessionRequest,
  OpenSessionResponse,
  ReportSessionsRequest,
  ReportSessionsResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { Gate } from '../accounts/gate.ts';
import type { SignedLinks } from '../media/signed-links.ts';
import { type CertificateOf, connectSession } from '../sessions/connect.ts';
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
  readonly certificateOf: CertificateOf;
}

/** Creates the calls of the gateway about live sessions. */
export function createSessionCalls(options: SessionCallsOptions) {
  const { database, gate, opener, report, voices, links, certificateOf } = options;
  return {
    async openSession(
      request: OpenSessionRequest,
      { trailers, signal, requestId, traceparent }: CallContext,
    ): Promise<OpenSessionResponse> {
      const { accountId } = await gate.admit(request.caller, trailers);
      const { capability, durationMinutes, prompt, voiceId } = request;
      const opened = await opener.open(
        { accountId, capability, durationMinutes, prompt, voiceId },
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

    reportSessions: async ({ reports }: ReportSessionsRequest): Promise<ReportSessionsResponse> => ({
      verdicts: await report(reports),
    }),

    async listVoices({ caller }: ListVoicesRequest, { trailers }: CallContext): Promise<ListVoicesResponse> {
      const { linkSeconds } = await gate.admit(caller, trailers);
      return { voices: await listVoices({ files: voices, sql: database.fast }, links, linkSeconds) };
    },
  };
}

export type SessionCalls = ReturnType<typeof createSessionCalls>;
