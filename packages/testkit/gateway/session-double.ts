import { hash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { newId, newSecret } from '@semblance/common/ids';
import type {
  AvatarVoice,
  ChangeSessionRequest,
  ChangeSessionResponse,
  ConnectSessionRequest,
  ConnectSessionResponse,
  OpenSessionRequest,
  OpenSessionResponse,
  ReportSessionsRequest,
  ReportSessionsResponse,
  SessionReport,
  SessionVerdict,
  Voice,
} from '@semblance/proto/semblance/control/v1/control';

interface DoubleSession {
  readonly request: OpenSessionRequest;
  readonly token: string;
  connectionId?: string;
  /** Whether nobody may connect any more. */
  over: boolean;
}

export interface DoubleGrant {
  readonly agentAddress: string;
  readonly agentIncarnation: string;
  readonly maxDurationSeconds: number;
  readonly reportIntervalMs: number;
}

/** Sessions of an in-memory control plane: opens, connections and reports, by scripted rules. */
export class SessionDouble {
  readonly sessions = new Map<string, DoubleSession>();
  /** Received reports, one array per message. */
  readonly messages: SessionReport[][] = [];
  readonly verdicts = new Map<string, SessionVerdict>();
  voices: Voice[] = [];
  readonly changes: ChangeSessionRequest[] = [];
  /** What a change of a session leads to. */
  onChange: (request: ChangeSessionRequest) => ChangeSessionResponse | Promise<ChangeSessionResponse> =
    () => ({
      outcome: { $case: 'changed', value: { note: '' } },
    });
  avatarVoices: AvatarVoice[] = [];
  grant: DoubleGrant = {
    agentAddress: '127.0.0.1:1',
    agentIncarnation: 'agent-1',
    maxDurationSeconds: 600,
    reportIntervalMs: 100,
  };

  open(request: OpenSessionRequest): OpenSessionResponse {
    const sessionId = newId('ses-');
    const token = newSecret('st_');
    this.sessions.set(sessionId, { request, token, over: false });
    const maxDurationSeconds = Math.min(request.durationMinutes * 60, this.grant.maxDurationSeconds);
    return { sessionId, sessionToken: token, maxDurationSeconds, maxCostMicros: 600_000n };
  }

  connect({ sessionId, tokenSha256, connectionId }: ConnectSessionRequest): ConnectSessionResponse {
    const session = this.sessions.get(sessionId);
    if (!session || !hash('sha256', session.token, 'buffer').equals(tokenSha256))
      throw new ApiError('unauthorized', 'There is no such session, or this is not its token.');
    if (session.over) throw new ApiError('not_found', 'The session has ended.');
    if (session.connectionId) throw new ApiError('not_found', 'The session has its connection.');
    session.connectionId = connectionId;
    return {
      ...this.grant,
      capability: session.request.capability,
      accountId: 'acct',
      ticket: Buffer.from(`ticket of ${sessionId}`),
      reportTimeoutMs: 15_000,
    };
  }

  change(request: ChangeSessionRequest): ChangeSessionResponse | Promise<ChangeSessionResponse> {
    this.changes.push(request);
    return this.onChange(request);
  }

  report({ reports }: ReportSessionsRequest): ReportSessionsResponse {
    this.messages.push(reports);
    for (const { sessionId, ended } of reports) {
      const session = this.sessions.get(sessionId);
      if (session && ended) session.over = true;
    }
    return {
      verdicts: reports.map(
        ({ sessionId, ended }) => this.verdicts.get(sessionId) ?? { over: ended, reason: undefined },
      ),
    };
  }

  /** Returns every report of a session, in order. */
  reportsOf(sessionId: string): SessionReport[] {
    return this.messages.flat().filter((report) => report.sessionId === sessionId);
  }

  finalOf(sessionId: string): SessionReport | undefined {
    return this.reportsOf(sessionId).find(({ ended }) => ended);
  }
}
