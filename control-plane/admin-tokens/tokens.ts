import { createHash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { newId, newSecret } from '@semblance/common/ids';
import type { AdminToken } from '@semblance/proto/semblance/admin/v1/admin';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { isRole, ROLES, type Role } from './roles.ts';

/** Name of the token that an installation begins with. */
export const BOOTSTRAP = 'bootstrap';

const NAME = /^[a-z0-9][a-z0-9._@-]{0,62}$/;
/** Longest lifetime, in seconds: ten years. */
const MAX_LIFETIME = 10 * 365 * 86_400;
/** A use is written when the one before is this old, in seconds. */
const USE_SECONDS = 60;

interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly created_at: Date;
  readonly issued_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly last_used_at: Date | null;
}

export interface NewToken {
  readonly name: string;
  readonly role: string;
  /** Undefined: it never expires. */
  readonly lifetimeSeconds: bigint | undefined;
}

export interface IssuedToken {
  readonly token: AdminToken;
  readonly secret: string;
}

/** Creates a token, whose secret is shown only now. @throws ApiError invalid_input */
export async function createToken(tx: Transaction, asked: NewToken): Promise<IssuedToken> {
  const { name, role, lifetimeSeconds = null } = asked;
  if (!NAME.test(name) || name === BOOTSTRAP)
    throw new ApiError(
      'invalid_input',
      'A token has a name of 1 to 63 lower-case letters, digits and ._@-, other than `bootstrap`.',
    );
  if (!isRole(role)) throw new ApiError('invalid_input', `A role is one of ${ROLES.join(', ')}.`);
  if (lifetimeSeconds !== null && (lifetimeSeconds < 60n || lifetimeSeconds > MAX_LIFETIME))
    throw new ApiError('invalid_input', 'A token lasts from a minute to ten years, or for ever.');
  const secret = newSecret('sat_');
  const [row] = await tx<TokenRow[]>`
    insert into admin_tokens (id, name, role, secret_sha256, expires_at)
    values (${newId('adm-')}, ${name}, ${role}, ${hashToken(secret)}, now() + ${lifetimeSeconds} * interval '1 second')
    on conflict (name) do nothing returning *`;
  if (!row) throw new ApiError('invalid_input', `There is or was a token named ${name}.`);
  return { token: tokenView(row), secret };
}

export async function listTokens(sql: Transaction): Promise<AdminToken[]> {
  const rows = await sql<TokenRow[]>`select * from admin_tokens order by id desc`;
  return rows.map(tokenView);
}

/** Reads a token before it is changed. @throws ApiError not_found */
export async function tokenBefore(tx: Transaction, tokenId: string): Promise<AdminToken> {
  const [row] = isStorable(tokenId)
    ? await tx<TokenRow[]>`select * from admin_tokens where id = ${tokenId} for no key update`
    : [];
  if (!row) throw new ApiError('not_found', `There is no token ${JSON.stringify(tokenId.slice(0, 80))}.`);
  return tokenView(row);
}

/** Takes effect on the next call, and is final. */
export async function revokeToken(tx: Transaction, tokenId: string): Promise<AdminToken> {
  const [row] = await tx<TokenRow[]>`
    update admin_tokens set revoked_at = coalesce(revoked_at, now()) where id = ${tokenId} returning *`;
  return tokenView(row as TokenRow);
}

/**
 * Replaces the secret of a token; it lasts as long again as from its issue. @throws ApiError invalid_input when it is
 * revoked
 */
export async function rotateToken(tx: Transaction, tokenId: string): Promise<IssuedToken> {
  const secret = newSecret('sat_');
  const [row] = await tx<TokenRow[]>`
    update admin_tokens set secret_sha256 = ${hashToken(secret)}, issued_at = now(),
                            expires_at = now() + (expires_at - issued_at)
    where id = ${tokenId} and revoked_at is null returning *`;
  if (!row) throw new ApiError('invalid_input', 'This token is revoked. Create another one.');
  return { token: tokenView(row), secret };
}

export interface FoundToken {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly state: 'valid' | 'expired' | 'revoked';
}

/** Finds the token with this secret, and notes the use of a valid one. */
export async function useToken(sql: Transaction, secret: string): Promise<FoundToken | undefined> {
  const hash = hashToken(secret);
  const [found] = await sql<(FoundToken & { used: boolean })[]>`
    select id, name, role, case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired'
                                else 'valid' end as state,
           last_used_at > now() - ${USE_SECONDS} * interval '1 second' as used
    from admin_tokens where secret_sha256 = ${hash}`;
  if (!found) return undefined;
  const { id, name, role, state, used } = found;
  if (state === 'valid' && !used) await sql`update admin_tokens set last_used_at = now() where id = ${id}`;
  return { id, name, role, state };
}

function hashToken(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function tokenView(row: TokenRow): AdminToken {
  return {
    tokenId: row.id,
    name: row.name,
    role: row.role,
    createdAt: row.created_at.toISOString(),
    issuedAt: row.issued_at.toISOString(),
    expiresAt: row.expires_at?.toISOString(),
    revokedAt: row.revoked_at?.toISOString(),
    lastUsedAt: row.last_used_at?.toISOString(),
  };
}
