import { timingSafeEqual } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import type {
  ConnectSessionRequest,
  ConnectSessionResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { Database } from '../storage/database.ts';
import { isConnectionId } from './reports.ts';
import { isSessionId } from './session-id.ts';

interface ConnectedRow {
  readonly capability: string;
  readonly account_id: string;
  readonly max_seconds: number;
  readonly agent: string;
  readonly agent_address: string;
  readonly agent_incarnation: string;
  readonly ticket: Buffer;
  readonly report_seconds: number;
  readonly timeout_seconds: number;
}

/** Returns the certificate in PEM that this process of an agent states; undefined: it states none. */
export type CertificateOf = (agent: string, incarnation: string) => Promise<string | undefined>;

/** Compared when there is no session, so that the answer takes equally long. */
const NOBODYS_TOKEN = Buffer.alloc(32);

/**
 * Admits the one connection of a session: the first with its token before the session is ended for want of one.
 * Only expiry judges that, because it knows when the clock was set. The same connection may ask again, in case the
 * answer was lost.
 *
 * The silence limit is stored with the session: its gateway reports as often as it was told at this moment,
 * whatever is set later. Nobody knows which of two answers to the same connection arrived, so the longer limit
 * counts.
 * @throws ApiError unauthorized: no such session, or not its token; not_found: it has ended, or has or had another
 * connection; invalid_input
 */
export async function connectSession(
  { sql, fast }: Database,
  { sessionId, tokenSha256, connectionId }: ConnectSessionRequest,
  certificateOf: CertificateOf,
): Promise<ConnectSessionResponse> {
  if (!isConnectionId(connectionId))
    throw new ApiError('invalid_input', 'A connection has an id of 1 to 128 characters.');
  const [known] = isSessionId(sessionId)
    ? await fast<{ token_sha256: Buffer }[]>`select token_sha256 from sessions where id = ${sessionId}`
    : [];
  const sent = Buffer.from(tokenSha256);
  const expected = known?.token_sha256 ?? NOBODYS_TOKEN;
  if (sent.length !== expected.length || !timingSafeEqual(sent, expected) || !known)
    throw new ApiError('unauthorized', 'There is no such session, or the token is not its token.');
  const [row] = await sql<ConnectedRow[]>`
    update sessions s set state = 'connected', connection_id = ${connectionId},
                          connected_at = coalesce(s.connected_at, now()), reported_at = coalesce(s.reported_at, now()),
                          report_timeout_seconds = greatest(s.report_timeout_seconds, t.session_report_timeout_seconds)
    from settings t
    where s.id = ${sessionId} and s.end_requested_at is null
      and (s.state = 'open' or (s.state = 'connected' and s.connection_id = ${connectionId}))
    returning s.capability, s.account_id, s.max_seconds, s.agent, s.agent_address, s.agent_incarnation, s.ticket,
              t.session_report_seconds as report_seconds, t.session_report_timeout_seconds as timeout_seconds`;
  if (!row)
    throw new ApiError(
      'not_found',
      'The session has ended, or has its connection: it takes one in its life.',
    );
  return {
    capability: row.capability,
    accountId: row.account_id,
    maxDurationSeconds: row.max_seconds,
    agentAddress: row.agent_address,
    agentIncarnation: row.agent_incarnation,
    agentCertificate: await certificateOf(row.agent, row.agent_incarnation),
    ticket: row.ticket,
    reportIntervalMs: row.report_seconds * 1000,
    reportTimeoutMs: row.timeout_seconds * 1000,
  };
}
