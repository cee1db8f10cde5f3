import { join } from 'node:path';
import { Metadata, status } from '@grpc/grpc-js';
import { call, createClient } from '@semblance/common/grpc/client';
import { openTls } from '@semblance/common/grpc/tls/tls';
import { silentLogger } from '@semblance/common/logging';
import { AdminServiceClient } from '@semblance/proto/semblance/admin/v1/admin';
import { readJson, writeJson } from './settings.ts';

/** Balance of the first account, in micro-dollars. */
const FIRST_BALANCE_MICROS = 100_000_000n;

export type LocalAccount = { account_id: string; key_id: string; api_key: string };

/**
 * Returns the account of the local stack, named `local`, with 100 USD. It is created at the first start and stored
 * in the state folder with its key, of which the control plane stores only the hash. It is created again when the
 * control plane does not know it, because its database is another one.
 */
export async function localAccount(options: {
  stateDir: string;
  /** `host:port` of the control plane. */
  controlAddress: string;
  adminToken: string;
  /** Folder of the control plane's certificate, for calls to it; undefined: the connection is not encrypted. */
  tlsDir?: string | undefined;
  signal?: AbortSignal;
}): Promise<LocalAccount> {
  const { stateDir, controlAddress, adminToken, tlsDir, signal } = options;
  const file = join(stateDir, 'account.json');
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${adminToken}`);
  const settings = { timeoutMs: 15_000, metadata, signal };
  const tls = await openTls({ dir: tlsDir, component: 'control-plane', logger: silentLogger() });
  const client = createClient(AdminServiceClient, controlAddress, undefined, tls?.to('control-plane'));
  try {
    const present = readJson<LocalAccount>(file);
    if (present?.account_id && present.api_key) {
      try {
        // `showAccount` would recompute the books, which takes minutes for many jobs.
        await call(client.listKeys.bind(client), { accountId: present.account_id }, settings);
        return present as LocalAccount;
      } catch (error) {
        if ((error as { code?: number }).code !== status.NOT_FOUND) throw error;
      }
    }
    const created = await call(
      client.createAccount.bind(client),
      { name: 'local', balanceMicros: FIRST_BALANCE_MICROS },
      settings,
    );
    const account = { account_id: created.accountId, key_id: created.keyId, api_key: created.apiKey };
    writeJson(file, account);
    return account;
  } finally {
    client.close();
    tls?.close();
  }
}
