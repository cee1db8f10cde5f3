import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** Refused calls of an address: at once, and how long it takes until it has one more, in ms. */
const BURST = 10;
const REFILL_MS = 6_000;
/** Time for which a token that was admitted is not held back with its address, in ms. */
const KNOWN_MS = 300_000;
const REMEMBERED = 10_000;

/** Holds back addresses from which calls come that are refused, but for tokens that were admitted lately. */
export function createRefusals(now: () => number = () => performance.now()) {
  const spent = new LRUCache<string, { readonly calls: number; readonly at: number }>({ max: REMEMBERED });
  const known = new LRUCache<string, true>({ max: REMEMBERED, ttl: KNOWN_MS });

  const keyOf = (token: string) => hash('sha256', token, 'base64');
  function callsOf(address: string): number {
    const before = spent.get(address);
    return before ? Math.max(0, before.calls - (now() - before.at) / REFILL_MS) : 0;
  }

  return {
    /** Returns whether a call is to be refused before its token is looked at. */
    holdsBack: (address: string, token: string): boolean =>
      callsOf(address) > BURST - 1 && !known.has(keyOf(token)),
    refused(address: string): void {
      spent.set(address, { calls: Math.min(BURST, callsOf(address) + 1), at: now() });
    },
    admitted(token: string): void {
      known.set(keyOf(token), true);
    },
  };
}
