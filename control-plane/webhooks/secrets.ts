import { ApiError } from '@semblance/common/errors';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';

export interface Secrets {
  readonly secret: string;
  /** Replaces it when it is promoted. */
  readonly next: string | undefined;
}

/** Returns the account's signing secret, created on the first request, and the next one. @throws ApiError not_found */
export async function showSecret(tx: Transaction, accountId: string): Promise<Secrets> {
  await requireAccount(tx, accountId);
  await tx`select make_webhook_secret(${accountId})`;
  const [row] = await tx<{ secret: string; next: string | null }[]>`
    select s.secret, n.secret as next from webhook_secrets s left join webhook_next_secrets n using (account_id)
    where s.account_id = ${accountId} and s.retires_at is null`;
  if (!row) throw new Error('a secret vanished');
  return { secret: row.secret, next: row.next ?? undefined };
}

/**
 * Makes the next secret, which signs beside the current one until it is promoted; one that waits already stays. Must
 * run in a transaction. @throws ApiError not_found
 */
export async function rotateSecret(tx: Transaction, accountId: string): Promise<string> {
  await lockSecrets(tx, accountId);
  await tx`select make_webhook_secret(${accountId})`;
  await tx`
    insert into webhook_next_secrets (account_id, secret) values (${accountId}, new_webhook_secret())
    on conflict (account_id) do nothing`;
  const { next } = await showSecret(tx, accountId);
  if (next === undefined) throw new Error('a next secret vanished');
  return next;
}

/**
 * Puts the next secret in the place of the current one, which ends. Must run in a transaction.
 * @throws ApiError not_found, or invalid_input without a next one
 */
export async function promoteSecret(tx: Transaction, accountId: string): Promise<string> {
  await lockSecrets(tx, accountId);
  const [next] = await tx<{ secret: string }[]>`
    delete from webhook_next_secrets where account_id = ${accountId} returning secret`;
  if (!next)
    throw new ApiError('invalid_input', 'There is no next secret: `secret rotate` makes one to be promoted.');
  await replaceSecret(tx, accountId, next.secret);
  return next.secret;
}

/** Replaces the secret and ends every other at once. Must run in a transaction. @throws ApiError not_found */
export async function replaceSecretNow(tx: Transaction, accountId: string): Promise<string> {
  await lockSecrets(tx, accountId);
  await tx`delete from webhook_next_secrets where account_id = ${accountId}`;
  const [made] = await tx<{ secret: string }[]>`select new_webhook_secret() as secret`;
  if (!made) throw new Error('no secret was made');
  await replaceSecret(tx, accountId, made.secret);
  return made.secret;
}

/** Ends all secrets, those also that a former release left valid for a day. */
async function replaceSecret(tx: Transaction, accountId: string, secret: string): Promise<void> {
  await tx`
    update webhook_secrets set retires_at = now()
    where account_id = ${accountId} and (retires_at is null or retires_at > now())`;
  await tx`insert into webhook_secrets (account_id, secret) values (${accountId}, ${secret})`;
}

/** Changes of an account's secrets wait for each other here, and submits, which may make the first one. */
async function lockSecrets(tx: Transaction, accountId: string): Promise<void> {
  await requireAccount(tx, accountId);
  await tx`select 1 from account_balances where account_id = ${accountId} for no key update`;
}
