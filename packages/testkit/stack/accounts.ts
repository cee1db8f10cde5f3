import { Metadata } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { parseUsd } from '@semblance/common/money';
import { AdminServiceClient } from '@semblance/proto/semblance/admin/v1/admin';
import { readControlAddress, readStackFile } from './stack-process.ts';
import { askFairly } from './standstill.ts';

export interface NewAccount {
  /** Balance in USD with at most six decimals. */
  balanceUsd?: number | string;
  /** Requests per minute of the key; `default` leaves the default of new keys. */
  perMinute?: number | 'default';
}

/**
 * Creates an account by the call of the admin command. The command itself has a suite of its own; starting it
 * dozens of times would take half a second of processor time each.
 */
export async function createAccount(
  stackFile: string,
  { balanceUsd = 100, perMinute = 1_000_000 }: NewAccount = {},
): Promise<{ accountId: string; keyId: string; apiKey: string }> {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${readStackFile(stackFile).admin_token}`);
  const settings = { timeoutMs: 60_000, metadata };
  const client = createClient(AdminServiceClient, readControlAddress(stackFile));
  try {
    const text = typeof balanceUsd === 'number' ? balanceUsd.toFixed(6) : balanceUsd;
    const request = { name: 'suite', balanceMicros: parseUsd(text) };
    const account = await askFairly(() => call(client.createAccount.bind(client), request, settings));
    const { keyId } = account;
    if (perMinute !== 'default') {
      await askFairly(() => call(client.limitKey.bind(client), { keyId, perMinute }, settings));
    }
    return account;
  } finally {
    client.close();
  }
}
