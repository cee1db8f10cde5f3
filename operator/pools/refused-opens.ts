/**
 * Time during which an open that found no slot counts as demand, in ms. Callers are told to try again in about a
 * minute.
 */
const REMEMBERED_MS = 90_000;
/**
 * Width of a time bucket, in ms. A retry in a later bucket does not count twice. A sooner one does, because it
 * looks like another user of the account.
 */
const BUCKET_MS = 5_000;
/** Most opens that are remembered: more would not ask for more agents. */
const MAX_REMEMBERED = 20_000;

/** Remembers live sessions that found no slot. */
export interface RefusedOpens {
  refused(capability: string, account: string): void;
  /** The account got a slot: one of its refused sessions stops counting. */
  opened(capability: string, account: string): void;
  /** Returns the sessions that still want a slot, by capability. Each account counts with its fullest bucket. */
  demand(): Map<string, number>;
}

export function createRefusedOpens(): RefusedOpens {
  /** Opens by the start of their bucket, for each capability and account. */
  const opens = new Map<string, Map<number, number>>();
  let remembered = 0;
  const keyOf = (capability: string, account: string) => `${capability} ${account}`;

  function forget(): void {
    const before = performance.now() - REMEMBERED_MS;
    for (const [key, buckets] of opens) {
      for (const [at, count] of buckets) {
        if (at + BUCKET_MS > before && count > 0) continue;
        buckets.delete(at);
        remembered -= count;
      }
      if (buckets.size === 0) opens.delete(key);
    }
  }

  return {
    refused(capability, account) {
      if (remembered >= MAX_REMEMBERED) return;
      const key = keyOf(capability, account);
      const at = Math.floor(performance.now() / BUCKET_MS) * BUCKET_MS;
      const buckets = opens.get(key) ?? new Map<number, number>();
      opens.set(key, buckets.set(at, (buckets.get(at) ?? 0) + 1));
      remembered++;
    },
    opened(capability, account) {
      const buckets = opens.get(keyOf(capability, account)) ?? new Map<number, number>();
      for (const [at, count] of buckets) {
        // The count never goes below zero.
        if (count === 0) continue;
        buckets.set(at, count - 1);
        remembered--;
      }
    },
    demand() {
      forget();
      const found = new Map<string, number>();
      for (const [key, buckets] of opens) {
        const capability = key.slice(0, key.indexOf(' '));
        found.set(capability, (found.get(capability) ?? 0) + Math.max(...buckets.values()));
      }
      return found;
    },
  };
}
