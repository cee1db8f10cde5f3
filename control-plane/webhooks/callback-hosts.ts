import { isIP } from 'node:net';
import { raceAbort } from '@semblance/common/async/abort';
import { LRUCache } from 'lru-cache';
import type { AddressGuard } from './addresses.ts';
import { resolve } from './sender.ts';

export interface CallbackHostsOptions {
  readonly guard: AddressGuard;
  /** Whether the owner allows addresses that are not public. */
  readonly allowsPrivate: boolean;
  /** As for a sender. */
  readonly lookup?: (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;
  /** Longest time for a name to be resolved, in ms. Default 500. */
  readonly lookupMs?: number;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

/** Tells of callbacks to which no webhook would go, before a job is made. */
export interface CallbackHosts {
  /** Returns why the callback is refused, as far as its text says it. */
  faultOf(url: string): string | undefined;
  /**
   * Returns why the callback is refused, by the addresses of its name. A name that is not resolved in time, or not at
   * all, is not refused: the sender checks the address of each attempt.
   */
  resolvedFaultOf(url: string, accountId: string): Promise<string | undefined>;
}

/** Names of networks of their own (RFC 6761, 6762, 8375, and ICANN's `internal`), and of Kubernetes. */
const PRIVATE_NAMES = /^[^.]+$|\.(?:localhost|local|internal|home\.arpa|svc)$/;

/** Lookups under way at once. */
const AT_ONCE = 64;
/** Lookups of an account: at once, and how long it takes until it has one more, in ms. */
const BURST = 10;
const REFILL_MS = 60_000;
/** Time for which the verdict on a name is remembered, in ms, and most names and accounts that are. */
const REMEMBERED_MS = 60_000;
const REMEMBERED = 10_000;

const FAULT = 'has a host without a public address';

/**
 * Creates the check. Names that only this network knows are not asked for, and all of them have one answer, so that
 * it tells nobody which ones exist. Lookups of an account are few, so that it cannot try many names; the names that it
 * may not look up any more are not refused.
 */
export function createCallbackHosts(options: CallbackHostsOptions): CallbackHosts {
  const { guard, allowsPrivate, lookup = resolve, lookupMs = 500, now = () => performance.now() } = options;
  const verdicts = new LRUCache<string, Promise<boolean>>({ max: REMEMBERED, ttl: REMEMBERED_MS });
  const spent = new LRUCache<string, { readonly lookups: number; readonly at: number }>({ max: REMEMBERED });
  let underWay = 0;

  const forbids = (address: string): boolean => {
    try {
      guard.check(address);
      return false;
    } catch {
      return true;
    }
  };

  /** Takes one of the account's lookups, if it has any left. */
  function takes(accountId: string): boolean {
    const before = spent.get(accountId) ?? { lookups: 0, at: now() };
    const lookups = Math.max(0, before.lookups - (now() - before.at) / REFILL_MS);
    if (lookups > BURST - 1 || underWay >= AT_ONCE) return false;
    spent.set(accountId, { lookups: lookups + 1, at: now() });
    return true;
  }

  async function refuses(name: string): Promise<boolean> {
    underWay++;
    try {
      const limit = AbortSignal.timeout(lookupMs);
      const addresses = await raceAbort(limit, lookup(name, limit));
      return addresses.length > 0 && addresses.every(forbids);
    } catch {
      return false;
    } finally {
      underWay--;
    }
  }

  function faultOf(url: string): string | undefined {
    const host = hostOf(url);
    if (isIP(host) !== 0) return forbids(host) ? FAULT : undefined;
    return !allowsPrivate && PRIVATE_NAMES.test(host) ? FAULT : undefined;
  }

  return {
    faultOf,
    async resolvedFaultOf(url, accountId) {
      const fault = faultOf(url);
      const host = hostOf(url);
      if (fault !== undefined || isIP(host) !== 0 || PRIVATE_NAMES.test(host)) return fault;
      let verdict = verdicts.get(host);
      if (!verdict) {
        if (!takes(accountId)) return undefined;
        verdict = refuses(host);
        verdicts.set(host, verdict);
      }
      return (await verdict) ? FAULT : undefined;
    },
  };
}

/** Returns the address or the name, without brackets and the dot of the root. */
function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}
