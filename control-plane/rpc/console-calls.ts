import { ApiError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import type {
  EndConsoleSessionRequest,
  EndConsoleSessionResponse,
  ListConsoleSessionsRequest,
  ListConsoleSessionsResponse,
  OpenConsoleSessionRequest,
  OpenConsoleSessionResponse,
} from '@semblance/proto/semblance/control/v1/control';
import { endConsoleSession, listConsoleSessions, openConsoleSession } from '../accounts/console-sessions.ts';
import type { Gate } from '../accounts/gate.ts';
import { type AuditFacts, writeAudit } from '../audit/audit.ts';
import type { Database } from '../storage/database.ts';
import type { Transaction } from '../storage/sql.ts';

export interface ConsoleCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
}

/** Creates the calls about sessions of the console. */
export function createConsoleCalls({ database, gate }: ConsoleCallsOptions) {
  async function note(
    tx: Transaction,
    action: string,
    keyId: string,
    { requestId }: CallContext,
    audits: readonly AuditFacts[],
  ): Promise<void> {
    const actor = { name: keyId, role: 'account', tokenId: undefined } as const;
    for (const facts of audits) await writeAudit(tx, { action, actor, stated: keyId, requestId }, facts);
  }

  return {
    async openConsoleSession(
      { caller, agent }: OpenConsoleSessionRequest,
      context: CallContext,
    ): Promise<OpenConsoleSessionResponse> {
      const admitted = await gate.admit(caller, context.trailers);
      // Else a cookie could be kept alive for ever.
      if (caller?.sessionSha256 !== undefined)
        throw new ApiError('unauthorized', 'A session of the console is opened with an API key.');
      return database.sql.begin(async (tx) => {
        const { session, token, audits } = await openConsoleSession(tx, admitted, {
          address: caller?.address,
          agent,
        });
        await note(tx, 'OpenConsoleSession', admitted.keyId, context, audits);
        return { session, token };
      });
    },

    async listConsoleSessions(
      { caller }: ListConsoleSessionsRequest,
      { trailers }: CallContext,
    ): Promise<ListConsoleSessionsResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return { sessions: await listConsoleSessions(database.fast, accountId, caller) };
    },

    async endConsoleSession(
      { caller, sessionId }: EndConsoleSessionRequest,
      context: CallContext,
    ): Promise<EndConsoleSessionResponse> {
      const { accountId, keyId } = await gate.admit(caller, context.trailers);
      return database.sql.begin(async (tx) => {
        const { session, audits } = await endConsoleSession(tx, accountId, sessionId, caller);
        await note(tx, 'EndConsoleSession', keyId, context, audits);
        return { session };
      });
    },
  };
}

export type ConsoleCalls = ReturnType<typeof createConsoleCalls>;
