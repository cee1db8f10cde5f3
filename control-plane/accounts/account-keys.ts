import { ApiError } from '@semblance/common/errors';
import type { AccountKey, KeyRules } from '@semblance/proto/semblance/control/v1/keys';
import type { AuditFacts } from '../audit/audit.ts';
import { readCaps } from '../billing/caps.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { applyRules, insertKey, keyName } from './accounts.ts';
import { checkRules, type RuleChanges } from './key-rules.ts';

/** Most valid keys of an account that its holder can make; the service owner can make more. */
export const MAX_KEYS = 100;
/** Requests a minute of a key that a key makes, where the maker's are not fewer. */
const PER_MINUTE = 60;

/** The calling key, as it is in the transaction of the change. */
export interface Asker {
  readonly accountId: string;
  readonly keyId: string;
}

interface Row {
  readonly id: string;
  readonly name: string | null;
  readonly prefix: string | null;
  readonly scopes: string[];
  /** Microseconds since 1970; null: never. */
  readonly expires: bigint | null;
  readonly expires_at: Date | null;
  readonly ranges: string[] | null;
  readonly cap_day_micros: bigint | null;
  readonly cap_month_micros: bigint | null;
  readonly per_minute: number;
  readonly created_at: Date;
  readonly used_at: Date | null;
  readonly made_by: string[];
}

async function rowsOf(sql: Transaction, accountId: string, keyId?: string): Promise<Row[]> {
  return sql<Row[]>`
    select k.*, k.allowed_addresses::text[] as ranges, greatest(k.last_used_at, w.opened_at) as used_at,
           (extract(epoch from k.expires_at) * 1000000)::bigint as expires
    from api_keys k left join rate_windows w on w.key_id = k.id
    where k.account_id = ${accountId} and k.revoked_at is null and k.id = coalesce(${keyId ?? null}, k.id)
    order by k.created_at desc, k.id desc`;
}

/** Lists the valid keys of an account, newest first. */
export async function listAccountKeys(sql: Transaction, accountId: string): Promise<AccountKey[]> {
  const keys: AccountKey[] = [];
  for (const row of await rowsOf(sql, accountId)) keys.push(await shown(sql, accountId, row));
  return keys;
}

/** A change that was made, with its audit record. */
export interface Made<Result> {
  readonly result: Result;
  readonly audit: AuditFacts;
}

/**
 * Makes a key that may do no more than the one that asks; what is left out is as with that one.
 * @throws ApiError invalid_input, forbidden, at_capacity
 */
export async function createAccountKey(
  tx: Transaction,
  asker: Asker,
  { name, rules }: { readonly name?: string | undefined; readonly rules?: KeyRules | undefined },
): Promise<Made<{ readonly key: AccountKey; readonly apiKey: string }>> {
  const changes = checkRules(rules);
  const text = name === undefined ? undefined : keyName(name);
  const { accountId } = asker;
  const maker = await lockKeys(tx, asker);
  const [count] = await tx<{ n: number }[]>`
    select count(*)::int as n from api_keys where account_id = ${accountId} and revoked_at is null`;
  if ((count?.n ?? 0) >= MAX_KEYS)
    throw new ApiError(
      'at_capacity',
      `An account has at most ${MAX_KEYS} keys. Revoke one that nobody uses.`,
    );
  const { keyId, apiKey } = await insertKey(tx, accountId, text);
  await tx`
    update api_keys k set (scopes, expires_at, allowed_addresses, cap_day_micros, cap_month_micros, per_minute, made_by)
      = (select m.scopes, m.expires_at, m.allowed_addresses, m.cap_day_micros, m.cap_month_micros,
                least(m.per_minute, ${PER_MINUTE}), m.made_by || m.id
         from api_keys m where m.id = ${maker.id})
    where k.id = ${keyId}`;
  await applyRules(tx, keyId, changes);
  const row = await keyOf(tx, accountId, keyId);
  await requireWithin(tx, row, maker);
  const key = await shown(tx, accountId, row);
  return {
    result: { key, apiKey },
    audit: { accountId, subject: keyId, after: { valid: true, name: text ?? null, ...factsOf(row) } },
  };
}

/**
 * Changes a key of the account. It may be narrowed by any key; what widens it must leave it within the key that asks, and if
 * that one has a cap, it must have made the key, so that what is spent counts toward the cap.
 * @throws ApiError not_found, invalid_input, forbidden
 */
export async function setAccountKey(
  tx: Transaction,
  asker: Asker,
  { keyId, name, rules }: { keyId: string; name?: string | undefined; rules?: KeyRules | undefined },
): Promise<Made<AccountKey>> {
  const changes = checkRules(rules);
  const text = name === undefined || name === '' ? name : keyName(name);
  const { accountId } = asker;
  const maker = await lockKeys(tx, asker);
  const before = await keyOf(tx, accountId, keyId);
  if (text !== undefined) await tx`update api_keys set name = ${text || null} where id = ${keyId}`;
  await applyRules(tx, keyId, changes);
  const after = await keyOf(tx, accountId, keyId);
  if (widens(changes) && (await faultWithin(tx, after, before)) !== undefined) {
    await requireWithin(tx, after, maker);
    const capped = maker.cap_day_micros !== null || maker.cap_month_micros !== null;
    if (capped && !after.made_by.includes(maker.id))
      throw new ApiError('forbidden', 'A key with a cap can widen only keys that it made.');
  }
  const audit = {
    accountId,
    subject: keyId,
    before: { name: before.name, ...factsOf(before) },
    after: { name: after.name, ...factsOf(after) },
  };
  return { result: await shown(tx, accountId, after), audit };
}

/** Revokes a key of the account, maybe the one that asks. @throws ApiError not_found */
export async function revokeAccountKey(
  tx: Transaction,
  asker: Asker,
  keyId: string,
): Promise<Made<undefined>> {
  const { accountId } = asker;
  await lockKeys(tx, asker);
  const rows = isStorable(keyId)
    ? await tx`update api_keys set revoked_at = coalesce(revoked_at, now())
        where id = ${keyId} and account_id = ${accountId} returning 1`
    : [];
  if (rows.length === 0) throw noSuchKey();
  return { result: undefined, audit: { accountId, subject: keyId, after: { valid: false } } };
}

/**
 * Locks the keys of the account, so that none is widened while another grants by it, and returns the one that asks.
 * @throws ApiError unauthorized, forbidden when it was revoked or changed since the call was admitted
 */
async function lockKeys(tx: Transaction, { accountId, keyId }: Asker): Promise<Row> {
  await tx`select 1 from accounts where id = ${accountId} for no key update`;
  await tx`select 1 from api_keys where account_id = ${accountId} order by id for no key update`;
  const [row] = await rowsOf(tx, accountId, keyId);
  if (!row) throw new ApiError('unauthorized', 'The API key is not known or was revoked.');
  if (!row.scopes.includes('account')) throw new ApiError('forbidden', 'This key lacks the scope "account".');
  return row;
}

async function keyOf(tx: Transaction, accountId: string, keyId: string): Promise<Row> {
  const [row] = isStorable(keyId) ? await rowsOf(tx, accountId, keyId) : [];
  if (!row) throw noSuchKey();
  return row;
}

function noSuchKey(): ApiError {
  return new ApiError('not_found', 'There is no such key.');
}

const widens = (changes: RuleChanges) => Object.values(changes).some((change) => change !== undefined);

async function requireWithin(tx: Transaction, key: Row, bounds: Row): Promise<void> {
  const fault = await faultWithin(tx, key, bounds);
  if (fault !== undefined) throw new ApiError('forbidden', `A key cannot grant more than it has: ${fault}.`);
}

/** Returns in what a key goes beyond another; undefined: in nothing. */
async function faultWithin(tx: Transaction, key: Row, bounds: Row): Promise<string | undefined> {
  const scopes = key.scopes.filter((scope) => !bounds.scopes.includes(scope));
  if (scopes.length > 0) return `it lacks the scope ${scopes.map((scope) => `"${scope}"`).join(', ')}`;
  if (beyond(key.expires, bounds.expires)) return 'it ends earlier';
  if (beyond(key.cap_day_micros, bounds.cap_day_micros)) return 'its cap of a day is lower';
  if (beyond(key.cap_month_micros, bounds.cap_month_micros)) return 'its cap of a month is lower';
  if (bounds.ranges === null) return undefined;
  if (key.ranges === null) return 'it is taken from fewer addresses';
  const [wide] = await tx<{ range: string }[]>`
    select r as range from unnest(${key.ranges}::text[]) r
    where not (r::cidr <<= any(${bounds.ranges}::text[]::cidr[])) limit 1`;
  return wide && `it is not taken from all of ${wide.range}`;
}

/** Null is without a bound. */
const beyond = (value: bigint | null, bound: bigint | null) =>
  bound !== null && (value === null || value > bound);

/** Returns the rules of a key for the audit. */
function factsOf(row: Row) {
  const usd = (micros: bigint | null) => (micros === null ? null : Number(micros) / 1e6);
  return {
    scopes: row.scopes,
    expires_at: row.expires_at?.toISOString() ?? null,
    allowed_addresses: row.ranges ?? [],
    cap_day_usd: usd(row.cap_day_micros),
    cap_month_usd: usd(row.cap_month_micros),
  };
}

async function shown(sql: Transaction, accountId: string, row: Row): Promise<AccountKey> {
  return {
    keyId: row.id,
    name: row.name ?? undefined,
    prefix: row.prefix ?? undefined,
    scopes: row.scopes,
    expiresAt: row.expires_at?.toISOString(),
    allowedAddresses: row.ranges ?? [],
    caps: await readCaps(sql, { accountId, keyId: row.id }),
    perMinute: row.per_minute,
    createdAt: row.created_at.toISOString(),
    lastUsedAt: row.used_at?.toISOString(),
    madeBy: row.made_by.at(-1),
  };
}
