import { createHash, timingSafeEqual } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { ApiError } from '#common/errors.ts';
import { type CallContext, type GrpcService, unary } from '#common/grpc/server.ts';
import type { Logger } from '#common/logging.ts';
import { type AdminServiceServer, AdminServiceService } from '#proto/semblance/admin/v1/admin.ts';
import { createAccount, createKey, limitKey, revokeKey, showAccount } from '../accounts/accounts.ts';
import { topUp } from '../billing/ledger.ts';
import type { Metrics } from '../metrics.ts';
import type { Database } from '../storage/database.ts';

export interface AdminServiceOptions {
  readonly logger: Logger;
  readonly database: Database;
  /** What `authorization: Bearer …` must carry. */
  readonly token: string;
  readonly metrics: Metrics;
}

/** What the service owner may do. */
export function createAdminService({ logger, database, token, metrics }: AdminServiceOptions): GrpcService {
  const { sql } = database;
  const expected = digest(`Bearer ${token}`);

  function authorize(metadata: Metadata): void {
    const sent = metadata.get('authorization')[0]?.toString() ?? '';
    // Digests have one length, so that comparing them tells nothing, not even how long the token is.
    if (!timingSafeEqual(digest(sent), expected))
      throw new ApiError('unauthorized', 'The admin token is missing or wrong.');
  }

  const guarded = <Request, Response>(method: string, handler: (request: Request) => Promise<Response>) =>
    unary<Request, Response>(
      logger,
      metrics.timed(method, async (request: Request, { metadata }: CallContext) => {
        authorize(metadata);
        return handler(request);
      }),
    );

  const implementation: AdminServiceServer = {
    createAccount: guarded('CreateAccount', ({ name, balanceMicros }) =>
      createAccount(sql, { name, balanceMicros }),
    ),
    topUpAccount: guarded('TopUpAccount', async ({ accountId, amountMicros, reference }) => {
      await topUp(sql, { accountId, amountMicros, reference });
      return { account: await showAccount(sql, accountId) };
    }),
    showAccount: guarded('ShowAccount', async ({ accountId }) => ({
      account: await showAccount(sql, accountId),
    })),
    createKey: guarded('CreateKey', ({ accountId }) => createKey(sql, accountId)),
    revokeKey: guarded('RevokeKey', async ({ keyId }) => ({ key: await revokeKey(sql, keyId) })),
    limitKey: guarded('LimitKey', async ({ keyId, perMinute }) => ({
      key: await limitKey(sql, keyId, perMinute),
    })),
  };
  return { name: 'semblance.admin.v1.AdminService', definition: AdminServiceService, implementation };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
