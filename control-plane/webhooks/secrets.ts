import { newSecret } from '@semblance/common/ids';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';

/** Time a secret stays valid beside the one that replaced it. */
export const OVERLAP_HOURS = 24;

/** The account's signing secret, made when it asks for the first time. @throws ApiError not_found */
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
 * Replaces the secret; deliveries carry signatures of both for a day, so that a receiver can change over in its own
 * time. To be called in a transaction. @throws ApiError not_found
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
