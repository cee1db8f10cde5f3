import { describeError } from '@semblance/common/errors';
import { isPlainText } from '@semblance/common/plain-text';
import { createRemoteJWKSet, type JWTPayload, jwtVerify } from 'jose';
import { ROLES, type Role } from './roles.ts';

export interface OidcSettings {
  /** As the tokens and the discovery document say it. */
  readonly issuer: string;
  readonly audience: string;
  /** Claim that names the holder in the audit. */
  readonly nameClaim: string;
  /** Claim with one value or several: its name, or a path such as `realm_access.roles`. */
  readonly roleClaim: string;
  /** Values of that claim that give a role. */
  readonly roles: Readonly<Partial<Record<Role, readonly string[]>>>;
}

export interface Oidc {
  /** Returns whether the token has the form of a JWT. */
  looksLike(token: string): boolean;
  /** Returns whom an ID or access token names. @throws Error that says why it is refused */
  verify(token: string): Promise<{ readonly name: string; readonly role: Role }>;
}

/** Signatures with a public key; a shared one would make every verifier a signer. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const TIMEOUT_MS = 5_000;
/** Pause after a discovery that failed, in ms. */
const RETRY_MS = 10_000;
const MAX_TOKEN = 16_384;
/** Longest name in the audit, without its prefix. */
const MAX_NAME = 190;

/**
 * Verifies tokens of one issuer with the keys that it publishes, found by OpenID Connect Discovery 1.0. `jose` fetches
 * them again when a token names a key that is not among them.
 */
export function createOidc(settings: OidcSettings): Oidc {
  const { issuer, audience, nameClaim, roleClaim, roles } = settings;
  let keys: Promise<ReturnType<typeof createRemoteJWKSet>> | undefined;
  let failedAt = Number.NEGATIVE_INFINITY;

  async function discover() {
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const answer = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    const found = (await answer.json()) as { issuer?: unknown; jwks_uri?: unknown };
    if (found.issuer !== issuer) throw new Error(`${url} is of another issuer`);
    const uri = typeof found.jwks_uri === 'string' ? URL.parse(found.jwks_uri) : null;
    if (!uri || !isSafe(uri)) throw new Error(`${url} names no keys over https`);
    return createRemoteJWKSet(uri, { timeoutDuration: TIMEOUT_MS });
  }

  function keysOf() {
    if (!keys) {
      if (performance.now() - failedAt < RETRY_MS) throw new Error('the issuer did not answer a moment ago');
      keys = discover();
      keys.catch(() => {
        keys = undefined;
        failedAt = performance.now();
      });
    }
    return keys;
  }

  return {
    looksLike: (token) => token.length <= MAX_TOKEN && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token),
    async verify(token) {
      const found = await keysOf().catch((cause: unknown) => {
        throw new Error(`the keys of the issuer cannot be fetched: ${describeError(cause)}`);
      });
      const { payload } = await jwtVerify(token, found, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: 30,
        requiredClaims: ['exp', 'sub'],
      });
      const name = claimOf(payload, nameClaim);
      if (typeof name !== 'string' || name === '' || name.length > MAX_NAME || !isPlainText(name))
        throw new Error(`its claim ${nameClaim} is no name`);
      const role = roleIn(valuesOf(claimOf(payload, roleClaim)));
      if (!role) throw new Error(`its claim ${roleClaim} gives no role`);
      return { name: `oidc:${name}`, role };
    },
  };

  /** Returns the role with the most rights. */
  function roleIn(values: readonly string[]): Role | undefined {
    return ROLES.findLast((role) => roles[role]?.some((value) => values.includes(value)));
  }
}

/** Returns whether nobody on the way can change the answer: https, or this machine. */
export function isSafe(url: URL): boolean {
  return (
    url.protocol === 'https:' || (url.protocol === 'http:' && /^(127\.0\.0\.1|\[::1\])$/.test(url.hostname))
  );
}

/** Returns the claim of this name, or where there is none, of this path. */
function claimOf(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  return name
    .split('.')
    .reduce<unknown>(
      (value, key) =>
        typeof value === 'object' && value !== null && Object.hasOwn(value, key)
          ? (value as Record<string, unknown>)[key]
          : undefined,
      payload,
    );
}

function valuesOf(claim: unknown): readonly string[] {
  const values = Array.isArray(claim) ? claim : [claim];
  return values.filter((value) => typeof value === 'string');
}
