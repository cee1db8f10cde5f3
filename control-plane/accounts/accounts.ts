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
import type { KeyRules } from '@semblance/proto/semblance/control/v1/keys';
import { limitOf } from '../audit/audit.ts';
import { topUp } from '../billing/ledger.ts';
import { isStorable, type Sql, SqlText, type Transaction } from '../storage/sql.ts';
import { KEY_PREFIX } from './key-prefix.ts';
import { checkRules, type RuleChanges } from './key-rules.ts';

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

/** @param name for people, 1 to 100 characters @throws ApiError not_found, invalid_input */
export async function createKey(
  sql: Transaction,
  accountId: string,
  { name, rules }: { readonly name?: string | undefined; readonly rules?: KeyRules | undefined } = {},
): Promise<{ keyId: string; apiKey: string }> {
  const text = name === undefined ? undefined : keyName(name);
  const changes = checkRules(rules);
  await requireAccount(sql, accountId);
  const made = await insertKey(sql, accountId, text);
  await applyRules(sql, made.keyId, changes);
  return made;
}

/** @throws ApiError invalid_input */
export function keyName(name: string): string {
  const text = name.trim();
  if (text === '' || text.length > 100 || !isStorable(text) || !isPlainText(text))
    throw new ApiError(
      'invalid_input',
      'A key has a name of 1 to 100 characters, none of them a control character.',
    );
  return text;
}

export async function insertKey(sql: Transaction, accountId: string, name?: string) {
  const keyId = newId('key-');
  const apiKey = newSecret('sk_live_');
  await sql`
    insert into api_keys (id, account_id, secret_sha256, name, prefix)
    values (${keyId}, ${accountId}, ${hashKey(apiKey)}, ${name ?? null}, ${apiKey.slice(0, KEY_PREFIX)})`;
  return { keyId, apiKey };
}

/** Takes effect on the next call. @throws ApiError not_found, invalid_input */
export async function setKey(sql: Transaction, keyId: string, rules: KeyRules | undefined): Promise<KeyView> {
  const changes = checkRules(rules);
  if (isStorable(keyId)) await applyRules(sql, keyId, changes);
  return keyAfter(sql, keyId);
}

export async function applyRules(sql: Transaction, keyId: string, changes: RuleChanges): Promise<void> {
  const { scopes, expiresAt, ranges, capDay, capMonth } = changes;
  await sql`
    update api_keys set
      scopes = coalesce(${scopes ?? null}::text[], scopes),
      expires_at = case when ${expiresAt !== undefined} then ${expiresAt ?? null}::timestamptz else expires_at end,
      allowed_addresses = case when ${ranges !== undefined} then ${ranges ?? null}::text[]::cidr[] else allowed_addresses end,
      cap_day_micros = case when ${capDay !== undefined} then ${capDay ?? null}::bigint else cap_day_micros end,
      cap_month_micros = case when ${capMonth !== undefined} then ${capMonth ?? null}::bigint else cap_month_micros end
    where id = ${keyId}`;
}

/** Takes effect on the next call. Revoking again changes nothing. @throws ApiError not_found */
export async function revokeKey(sql: Transaction, keyId: string): Promise<KeyView> {
  if (isStorable(keyId))
    await sql`update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${keyId}`;
  return keyAfter(sql, keyId);
}

/** @throws ApiError not_found, invalid_input */
export async function limitKey(sql: Transaction, keyId: string, perMinute: number): Promise<KeyView> {
  if (!Number.isInteger(perMinute) || perMinute < 1 || perMinute > 1_000_000)
    throw new ApiError('invalid_input', 'A limit is a whole number from 1 to 1000000.');
  if (isStorable(keyId)) await sql`update api_keys set per_minute = ${perMinute} where id = ${keyId}`;
  return keyAfter(sql, keyId);
}

/**
 * Lists the keys of an account, or of all accounts those that begin with a prefix; newest first, including revoked ones.
 * @throws ApiError not_found, invalid_input
 */
export async function listKeys(
  sql: Transaction,
  { accountId, prefix }: { readonly accountId: string; readonly prefix?: string | undefined },
): Promise<KeyView[]> {
  if (prefix !== undefined && (prefix.length < KEY_PREFIX || !isStorable(prefix)))
    throw new ApiError('invalid_input', `A prefix has at least the first ${KEY_PREFIX} characters of a key.`);
  if (accountId !== '' || prefix === undefined) await requireAccount(sql, accountId);
  const start = prefix?.slice(0, KEY_PREFIX) ?? null;
  const rows =
    accountId === ''
      ? await sql<KeyRow[]>`${KEYS} where k.prefix = ${start} order by k.created_at desc, k.id desc limit 100`
      : await sql<KeyRow[]>`
          ${KEYS} where k.account_id = ${accountId} and (${start}::text is null or k.prefix = ${start})
          order by k.created_at desc, k.id desc`;
  return rows.map(keyView);
}

/** A window opens with its first call, and housekeeping notes it before the next takes its place, or later. */
const KEYS = new SqlText(
  'select k.*, k.allowed_addresses::text[] as ranges, greatest(k.last_used_at, w.opened_at) as used_at from api_keys k left join rate_windows w on w.key_id = k.id',
);

/**
 * Notes when keys were last used, by the windows of their rate limits: nothing is written with a call.
 * @returns how many were noted
 */
export async function noteKeyUses(sql: Sql): Promise<number> {
  const rows = await sql`
    update api_keys k set last_used_at = w.opened_at from rate_windows w
    where w.key_id = k.id and w.opened_at > coalesce(k.last_used_at, '-infinity') and w.opened_at <= now() returning 1`;
  return rows.length;
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
  readonly name: string | null;
  readonly prefix: string | null;
  readonly scopes: string[];
  readonly expires_at: Date | null;
  readonly ranges: string[] | null;
  readonly cap_day_micros: bigint | null;
  readonly cap_month_micros: bigint | null;
  readonly made_by: string[];
  /** The later of what was noted and the present window. */
  readonly used_at: Date | null;
}

/** @throws ApiError not_found */
export async function keyAfter(sql: Transaction, keyId: string): Promise<KeyView> {
  const [row] = isStorable(keyId) ? await sql<KeyRow[]>`${KEYS} where k.id = ${keyId}` : [];
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
    name: row.name ?? undefined,
    prefix: row.prefix ?? undefined,
    lastUsedAt: row.used_at?.toISOString(),
    scopes: row.scopes,
    expiresAt: row.expires_at?.toISOString(),
    allowedAddresses: row.ranges ?? [],
    capDayMicros: row.cap_day_micros ?? undefined,
    capMonthMicros: row.cap_month_micros ?? undefined,
  };
}
