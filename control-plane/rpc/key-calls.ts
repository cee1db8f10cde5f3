import type { CallContext } from '@semblance/common/grpc/server';
import type {
  CreateAccountKeyRequest,
  CreateAccountKeyResponse,
  GetAccountCapsRequest,
  GetAccountCapsResponse,
  ListAccountKeysRequest,
  ListAccountKeysResponse,
  RevokeAccountKeyRequest,
  RevokeAccountKeyResponse,
  SetAccountCapsRequest,
  SetAccountCapsResponse,
  SetAccountKeyRequest,
  SetAccountKeyResponse,
} from '@semblance/proto/semblance/control/v1/control';
import {
  type Asker,
  createAccountKey,
  listAccountKeys,
  type Made,
  revokeAccountKey,
  setAccountKey,
} from '../accounts/account-keys.ts';
import type { Gate } from '../accounts/gate.ts';
import { writeAudit } from '../audit/audit.ts';
import { setAccountCaps } from '../billing/account-caps.ts';
import { readAlarm } from '../billing/balance-alarm.ts';
import { readCaps } from '../billing/caps.ts';
import type { Database } from '../storage/database.ts';
import type { Transaction } from '../storage/sql.ts';

export interface KeyCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
}

/** Creates the calls with which the holder of an account manages keys and caps. */
export function createKeyCalls({ database, gate }: KeyCallsOptions) {
  /** Makes a change with its audit record in one transaction. */
  async function change<Result>(
    action: string,
    { caller }: ListAccountKeysRequest,
    { trailers, requestId }: CallContext,
    make: (tx: Transaction, asker: Asker) => Promise<Made<Result>>,
  ): Promise<Result> {
    const { accountId, keyId } = await gate.admit(caller, trailers);
    return database.sql.begin(async (tx) => {
      const { result, audit } = await make(tx, { accountId, keyId });
      const actor = { name: keyId, role: 'account', tokenId: undefined } as const;
      await writeAudit(tx, { action, actor, stated: keyId, requestId }, audit);
      return result;
    });
  }

  return {
    async listAccountKeys(
      { caller }: ListAccountKeysRequest,
      { trailers }: CallContext,
    ): Promise<ListAccountKeysResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return { keys: await listAccountKeys(database.fast, accountId) };
    },

    createAccountKey: (
      request: CreateAccountKeyRequest,
      context: CallContext,
    ): Promise<CreateAccountKeyResponse> =>
      change('CreateAccountKey', request, context, (tx, asker) => createAccountKey(tx, asker, request)),

    setAccountKey: async (
      request: SetAccountKeyRequest,
      context: CallContext,
    ): Promise<SetAccountKeyResponse> => ({
      key: await change('SetAccountKey', request, context, (tx, asker) => setAccountKey(tx, asker, request)),
    }),

    async revokeAccountKey(
      request: RevokeAccountKeyRequest,
      context: CallContext,
    ): Promise<RevokeAccountKeyResponse> {
      const { keyId } = request;
      await change('RevokeAccountKey', request, context, (tx, asker) => revokeAccountKey(tx, asker, keyId));
      return {};
    },

    async getAccountCaps(
      { caller }: GetAccountCapsRequest,
      { trailers }: CallContext,
    ): Promise<GetAccountCapsResponse> {
      const { accountId } = await gate.admit(caller, trailers);
      return capsAndAlarm(database.fast, accountId);
    },

    setAccountCaps: (request: SetAccountCapsRequest, context: CallContext): Promise<SetAccountCapsResponse> =>
      change('SetAccountCaps', request, context, async (tx, { accountId }) => {
        const audit = await setAccountCaps(tx, accountId, request.caps);
        return { audit, result: await capsAndAlarm(tx, accountId) };
      }),
  };
}

async function capsAndAlarm(sql: Transaction, accountId: string) {
  return { caps: await readCaps(sql, { accountId }), alarm: await readAlarm(sql, accountId) };
}

export type KeyCalls = ReturnType<typeof createKeyCalls>;
