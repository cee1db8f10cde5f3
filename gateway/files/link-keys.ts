import { LRUCache } from 'lru-cache';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext } from '../http/context.ts';
import { StatusError } from '../http/envelope.ts';

export interface LinkKeysOptions {
  readonly control: Pick<ControlPlane, 'findUsableKeys'>;
  /** Time for which a key that was found valid is not asked for again, in ms. Default 5,000. */
  readonly freshMs?: number;
  /** Time for which it counts as valid while the control plane does not answer, in ms. Default ten minutes. */
  readonly staleMs?: number;
}

export interface LinkKeys {
  /**
   * Requires that the key of a link was not revoked.
   * @param keyId undefined: the link belongs to no key
   * @throws StatusError 403 when it was; the error of the control plane when nobody knows
   */
  require(ctx: GatewayContext, keyId: string | undefined): Promise<void>;
}

/** Keys that are remembered, each of about 100 bytes. */
const REMEMBERED = 20_000;

/** Knows which of the API keys in links are still valid. A revocation is final, and counts within `freshMs`. */
export function createLinkKeys({ control, freshMs = 5_000, staleMs = 600_000 }: LinkKeysOptions): LinkKeys {
  const usable = new LRUCache<string, number>({ max: REMEMBERED, ttl: staleMs });
  const revoked = new LRUCache<string, true>({ max: REMEMBERED });
  const asking = new Map<string, Promise<boolean>>();

  async function ask(ctx: GatewayContext, keyId: string): Promise<boolean> {
    try {
      const { keyIds } = await control.findUsableKeys(ctx, { keyIds: [keyId] });
      if (keyIds.includes(keyId)) {
        usable.set(keyId, performance.now());
        return true;
      }
      revoked.set(keyId, true);
      usable.delete(keyId);
      return false;
    } catch (error) {
      if (usable.has(keyId)) return true;
      throw error;
    }
  }

  async function isUsable(ctx: GatewayContext, keyId: string): Promise<boolean> {
    if (revoked.has(keyId)) return false;
    const seenAt = usable.get(keyId);
    if (seenAt !== undefined && performance.now() - seenAt < freshMs) return true;
    const under = asking.get(keyId) ?? ask(ctx, keyId).finally(() => asking.delete(keyId));
    asking.set(keyId, under);
    return under;
  }

  return {
    async require(ctx, keyId) {
      if (keyId === undefined || (await isUsable(ctx, keyId))) return;
      throw new StatusError(
        403,
        'unauthorized',
        'The API key that asked for this link was revoked. Read the job again with another key.',
      );
    },
  };
}
