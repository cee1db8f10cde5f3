import { createHash, timingSafeEqual } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { ApiError } from '#common/errors.ts';
import { type CallContext, type GrpcService, unary } from '#common/grpc/server.ts';
import type { Logger } from '#common/logging.ts';
import { type AdminServiceServer, AdminServiceService } from '#proto/semblance/admin/v1/admin.ts';
import {
  createAccount,
  createKey,
  limitKey,
  requireAccount,
  revokeKey,
  setLimits,
  showAccount,
} from '../accounts/accounts.ts';
import { topUp } from '../billing/ledger.ts';
import { setRates, switchCapability } from '../billing/rate-card.ts';
import type { Metrics } from '../metrics.ts';
import type { Database } from '../storage/database.ts';
import { type DeliveryView, listDeliveries, replayDelivery } from '../webhooks/deliveries.ts';
import { rotateSecret, showSecret } from '../webhooks/secrets.ts';

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
    showSecret: guarded('ShowSecret', async ({ accountId }) => ({
      secret: await showSecret(sql, accountId),
    })),
    rotateSecret: guarded('RotateSecret', async ({ accountId }) => ({
      secret: await rotateSecret(sql, accountId),
    })),
    listDeliveries: guarded('ListDeliveries', async ({ accountId }) => {
      await requireAccount(sql, accountId);
      return { deliveries: (await listDeliveries(sql, { accountId })).map(deliveryView) };
    }),
    replayDelivery: guarded('ReplayDelivery', async ({ deliveryId }) => ({
      delivery: deliveryView(await replayDelivery(sql, deliveryId)),
    })),
    switchCapability: guarded('SwitchCapability', async ({ capability, on }) => ({
      capability,
      enabled: await switchCapability(sql, capability, on),
    })),
    setLimits: guarded('SetLimits', async ({ accountId, jobsInFlight, liveSessions }) => ({
      accountId,
      ...(await setLimits(sql, accountId, { jobsInFlight, liveSessions })),
    })),
    setRates: guarded('SetRates', async ({ capability, accountId, rateMicros, minimumMicros }) => {
      const rates = { capability, accountId, rateMicros, minimumMicros };
      return { ...rates, ...(await setRates(sql, rates)) };
    }),
  };
  return { name: 'semblance.admin.v1.AdminService', definition: AdminServiceService, implementation };
}

function deliveryView({ id, jobId, event, state, attempts }: DeliveryView) {
  return { deliveryId: id, jobId, event, state, attempts: [...attempts] };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
