import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError, describeError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import type { Logger } from '@semblance/common/logging';
import type { Sql } from '../storage/sql.ts';
import type { Oidc } from './oidc.ts';
import { createRefusals } from './refusals.ts';
import { type AdminMethod, LEAST_ROLE, mayCall, type Role } from './roles.ts';
import { BOOTSTRAP, useToken } from './tokens.ts';

/** Who calls the admin service, as the token proves it. */
export interface AdminIdentity {
  /** `bootstrap`, the name of a token, or `oidc:` and a claim. */
  readonly name: string;
  readonly role: Role;
  /** Id of a named token. */
  readonly tokenId: string | undefined;
}

/** Why a call is refused, as the metric counts it. */
export type AdminRefusal = 'missing' | 'unknown' | 'expired' | 'revoked' | 'oidc' | 'role' | 'throttled';

export interface AdminGateOptions {
  readonly sql: Sql;
  readonly bootstrapToken: string;
  /** Undefined: tokens of an issuer are unknown. */
  readonly oidc?: Oidc | undefined;
  readonly logger: Logger;
  readonly onRefused: (reason: AdminRefusal) => void;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: (() => number) | undefined;
}

export interface AdminGate {
  /** Returns who calls. @throws ApiError unauthorized, or rate_limited after many refusals */
  admit(method: AdminMethod, context: Pick<CallContext, 'metadata' | 'peer'>): Promise<AdminIdentity>;
}

class Refused extends Error {
  readonly reason: AdminRefusal;
  constructor(reason: AdminRefusal, message: string) {
    super(message);
    this.reason = reason;
  }
}

const UNKNOWN = 'The admin token is missing or wrong.';

export function createAdminGate(options: AdminGateOptions): AdminGate {
  const { sql, oidc, logger, onRefused } = options;
  const refusals = createRefusals(options.now);
  const bootstrap = digest(options.bootstrapToken);

  /** @throws Refused */
  async function identify(token: string): Promise<AdminIdentity> {
    if (token === '') throw new Refused('missing', UNKNOWN);
    // Digests have one length, so comparing them reveals nothing, not even the length of the token.
    if (timingSafeEqual(digest(token), bootstrap))
      return { name: BOOTSTRAP, role: 'owner', tokenId: undefined };
    if (oidc?.looksLike(token)) {
      const held = await oidc.verify(token).catch((error: unknown) => {
        throw new Refused('oidc', `The token of the issuer is refused: ${describeError(error)}.`);
      });
      return { ...held, tokenId: undefined };
    }
    const found = token.startsWith('sat_') ? await useToken(sql, token) : undefined;
    if (!found) throw new Refused('unknown', UNKNOWN);
    const { id, name, role, state } = found;
    if (state !== 'valid') throw new Refused(state, `The admin token ${name} is ${state}.`);
    return { name, role, tokenId: id };
  }

  return {
    async admit(method, { metadata, peer }) {
      const sent = metadata.get('authorization')[0]?.toString() ?? '';
      const token = /^Bearer (.*)$/s.exec(sent)?.[1] ?? '';
      const address = addressOf(peer);
      const refuse = (reason: AdminRefusal, code: 'unauthorized' | 'rate_limited', message: string) => {
        onRefused(reason);
        const level = reason === 'throttled' ? 'debug' : 'warn';
        logger[level]({ method, reason, address }, `refused an admin call: ${message}`);
        return new ApiError(code, message);
      };
      if (refusals.holdsBack(address, token))
        throw refuse(
          'throttled',
          'rate_limited',
          'Many refused calls came from this address. Wait a minute.',
        );
      let identity: AdminIdentity;
      try {
        identity = await identify(token);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        refusals.refused(address);
        throw refuse(error.reason, 'unauthorized', error.message);
      }
      refusals.admitted(token);
      if (!mayCall(identity.role, method))
        throw refuse(
          'role',
          'unauthorized',
          `${method} needs the role ${LEAST_ROLE[method]}; ${identity.name} has ${identity.role}.`,
        );
      return identity;
    },
  };
}

/** Returns the address of `address:port`. */
function addressOf(peer: string): string {
  return peer.replace(/:\d+$/, '');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
