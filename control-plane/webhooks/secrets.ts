import { newSecret } from '@semblance/common/ids';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';

/** Hours for which a secret stays valid after it was replaced. */
export const OVERLAP_HOURS = 24;

/** Returns the account's signing secret, created on the first request. @throws ApiError not_found */
export async function showSecret(sql: Transaction, accountId: string): Promise<string> {
  await requireAccount(sql, accountId);
  await sql`
    insert into webhook_secrets (account_id, secret) values (${accountId}, ${newSecret('whsec_')})
    on conflict (account_id) where retires_at is null do nothing`;
  const [row] = await sql<{ secret: string }[]>`
    select secret from webhook_secrets where account_id = ${accountId} and retires_at is null`;
  if (!row) throw new Error('a secret vanished');
  return row.secret;
}

/**
 * Replaces the secret. Deliveries carry signatures of both for a day, so that a receiver can change over. Must run
 * in a transaction. @throws ApiError not_found
 */
export async function rotateSecret(tx: Transaction, accountId: string): Promise<string> {
  await requireAccount(tx, accountId);
  const secret = newSecret('whsec_');
  // Rotations of one account wait for each other here.
  await tx`select 1 from account_balances where account_id = ${accountId} for no key update`;
  await tx`
    update webhook_secrets set retires_at = now() + ${OVERLAP_HOURS} * interval '1 hour'
    where account_id = ${accountId} and retires_at is null`;
  await tx`insert into webhook_secrets (account_id, secret) values (${accountId}, ${secret})`;
  return secret;
}
