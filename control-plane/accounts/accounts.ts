import { createHash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { newId, newSecret } from '@semblance/common/ids';
import type { Micros } from '@semblance/common/money';
import { isPlainText } from '@semblance/common/plain-text';
import type {
  AccountEntry,
  AccountView,
  CreateAccountResponse,
  KeyView,
} from '@semblance/proto/semblance/admin/v1/admin';
import { limitOf } from '../audit/audit.ts';
import { topUp } from '../billing/ledger.ts';
import { isStorable, type Sql, type Transaction } from '../storage/sql.ts';

/** Returns the SHA-256 of a key as presented: the only form in which keys are stored and sent between services. */
export function hashKey(apiKey: string): Buffer {
  return createHash('sha256').update(apiKey).digest();
}

export interface NewAccount {
  readonly name: string;
  readonly balanceMicros: Micros;
}

/**
 * Creates an account with its books, one key (shown only now) and, if more than 0, a first top-up: all or nothing.
 */
export function createAccount(sql: Sql, account: NewAccount): Promise<CreateAccountResponse> {
  return sql.begin((tx) => createAccountIn(tx, account));
}

/** Does the same within a transaction. */
export async function createAccountIn(
  tx: Transaction,
  { name, balanceMicros }: NewAccount,
): Promise<CreateAccountResponse> {
  const text = name.trim();
  if (text.length === 0 || text.length > 200 || !isStorable(text) || !isPlainText(text))
    throw new ApiError(
      'invalid_input',
      'An account has a name of 1 to 200 characters, none of them a control character.',
    );
  if (balanceMicros < 0n) throw new ApiError('invalid_input', 'A first balance is not negative.');
  const accountId = newId('acct-');
  await tx`insert into accounts (id, name) values (${accountId}, ${text})`;
  await tx`insert into account_balances (account_id) values (${accountId})`;
  if (balanceMicros > 0n) await topUp(tx, { accountId, amountMicros: balanceMicros });
  return { accountId, ...(await insertKey(tx, accountId)) };
}

/** @throws ApiError not_found */
export async function createKey(
  sql: Transaction,
  accountId: string,
): Promise<{ keyId: string; apiKey: string }> {
  await requireAccount(sql, accountId);
  return insertKey(sql, accountId);
}

async function insertKey(sql: Transaction, accountId: string) {
  const keyId = newId('key-');
  const apiKey = newSecret('sk_live_');
  await sql`insert into api_keys (id, account_id, secret_sha256) values (${keyId}, ${accountId}, ${hashKey(apiKey)})`;
  return { keyId, apiKey };
}

/** Takes effect on the next call. Revoking again changes nothing. @throws ApiError not_found */
export async function revokeKey(sql: Transaction, keyId: string): Promise<KeyView> {
  const rows = isStorable(keyId)
    ? await sql<
        KeyRow[]
      >`update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${keyId} returning *`
    : [];
  return changedKey(rows[0], keyId);
}

/** @throws ApiError not_found, invalid_input */
export async function limitKey(sql: Transaction, keyId: string, perMinute: number): Promise<KeyView> {
  if (!Number.isInteger(perMinute) || perMinute < 1 || perMinute > 1_000_000)
    throw new ApiError('invalid_input', 'A limit is a whole number from 1 to 1000000.');
  const rows = isStorable(keyId)
    ? await sql<KeyRow[]>`update api_keys set per_minute = ${perMinute} where id = ${keyId} returning *`
    : [];
  return changedKey(rows[0], keyId);
}

/** Lists the keys of an account, newest first, including revoked ones. @throws ApiError not_found */
export async function listKeys(sql: Transaction, accountId: string): Promise<KeyView[]> {
  await requireAccount(sql, accountId);
  const rows = await sql<
    KeyRow[]
  >`select * from api_keys where account_id = ${accountId} order by created_at desc, id desc`;
  return rows.map(keyView);
}

/** Returns balance, holds and whether the books, recomputed from their entries, agree. @throws ApiError not_found */
export async function showAccount(sql: Transaction, accountId: string): Promise<AccountView> {
  await requireAccount(sql, accountId);
  const [row] = await sql<
    { name: string; available: bigint; held: bigint; reserved: bigint; open: number; faults: number }[]
  >`
    select a.name, b.available_micros as available, b.held_micros as held, b.reserved_micros as reserved,
           (select count(*)::int from jobs j where j.account_id = a.id and j.settled_at is null) as open,
           (select count(*)::int from ledger_faults(a.id)) as faults
    from accounts a join account_balances b on b.account_id = a.id where a.id = ${accountId}`;
  if (!row) throw new Error(`account ${accountId} has no books`);
  return {
    accountId,
    name: row.name,
    balanceMicros: row.available,
    holdsMicros: row.held,
    holdsOpen: row.open,
    reservedMicros: row.reserved,
    ledgerOk: row.faults === 0,
  };
}

/** Lists accounts whose name contains `search`, newest first. @throws ApiError invalid_input */
export async function listAccounts(
  sql: Transaction,
  of: { search?: string; limit: number },
): Promise<AccountEntry[]> {
  const { search = '' } = of;
  const limit = limitOf(of.limit);
  if (!isStorable(search)) return [];
  const rows = await sql<(Omit<AccountEntry, 'createdAt'> & { createdAt: Date })[]>`
    select a.id as "accountId", a.name, a.created_at as "createdAt", b.available_micros as "balanceMicros",
           b.held_micros as "holdsMicros", b.reserved_micros as "reservedMicros",
           (select count(*)::int from api_keys k where k.account_id = a.id and k.revoked_at is null) as keys
    from accounts a join account_balances b on b.account_id = a.id
    where position(lower(${search}) in lower(a.name)) > 0
    order by a.created_at desc, a.id desc limit ${limit}`;
  return rows.map((row) => ({ ...row, createdAt: row.createdAt.toISOString() }));
}

/** @throws ApiError not_found */
export async function requireAccount(sql: Transaction, accountId: string): Promise<void> {
  const rows = isStorable(accountId) ? await sql`select 1 from accounts where id = ${accountId}` : [];
  if (rows.length === 0)
    throw new ApiError('not_found', `There is no account ${JSON.stringify(accountId.slice(0, 80))}.`);
}

interface KeyRow {
  readonly id: string;
  readonly account_id: string;
  readonly per_minute: number;
  readonly created_at: Date;
  readonly revoked_at: Date | null;
}

function changedKey(row: KeyRow | undefined, keyId: string): KeyView {
  if (!row) throw new ApiError('not_found', `There is no key ${JSON.stringify(keyId.slice(0, 80))}.`);
  return keyView(row);
}

function keyView(row: KeyRow): KeyView {
  return {
    keyId: row.id,
    accountId: row.account_id,
    perMinute: row.per_minute,
    revokedAt: row.revoked_at?.toISOString(),
    createdAt: row.created_at.toISOString(),
  };
}
