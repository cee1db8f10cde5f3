import { ApiError } from '#common/errors.ts';
import type { CallContext } from '#common/grpc/server.ts';
import type { Voice } from '#common/voices/voice.ts';
import type {
  ConnectSessionRequest,
  ConnectSessionResponse,
  ListVoicesRequest,
  ListVoicesResponse,
  OpenSessionRequest,
  OpenSessionResponse,
  ReportSessionsRequest,
  ReportSessionsResponse,
} from '#proto/semblance/control/v1/control.ts';
import type { Gate } from '../accounts/gate.ts';
import type { SignedLinks } from '../media/signed-links.ts';
import type { Database } from '../storage/database.ts';
import { listVoices } from '../voices/list-voices.ts';

export interface SessionCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  /** Voices of files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly links: SignedLinks;
}

/** What the gateway asks about live sessions. Nothing opens one yet, so none is known. */
export function createSessionCalls({ database, gate, voices, links }: SessionCallsOptions) {
  return {
    async openSession(
      { caller }: OpenSessionRequest,
      { trailers }: CallContext,
    ): Promise<OpenSessionResponse> {
      await gate.admit(caller, trailers);
      throw new ApiError('capability_unavailable', 'Live sessions are switched off at present.');
    },

    async connectSession(_request: ConnectSessionRequest): Promise<ConnectSessionResponse> {
      throw new ApiError('unauthorized', 'There is no such session, or the token is not its token.');
    },

    async reportSessions({ reports }: ReportSessionsRequest): Promise<ReportSessionsResponse> {
      return { verdicts: reports.map(() => ({ over: true, reason: undefined })) };
    },

    async listVoices({ caller }: ListVoicesRequest, { trailers }: CallContext): Promise<ListVoicesResponse> {
      const { linkSeconds } = await gate.admit(caller, trailers);
      return { voices: await listVoices({ files: voices, sql: database.fast }, links, linkSeconds) };
    },
  };
}

export type SessionCalls = ReturnType<typeof createSessionCalls>;
