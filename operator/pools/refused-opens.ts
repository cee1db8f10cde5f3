/** How long an open that found no slot counts as demand: whoever was told to try again in about a minute has by then. */
const REMEMBERED_MS = 90_000;
/**
 * Who tries again after this long is not counted twice. Who does so sooner is: an account has many users, and nothing tells
 * one that tries again from another who wants a session too.
 */
const BUCKET_MS = 5_000;
/** Of opens remembered; more are worth no more agents. */
const MAX_REMEMBERED = 20_000;

/** Live sessions that were opened and found no slot. */
export interface RefusedOpens {
  refused(capability: string, account: string): void;
  /** The account found a slot: a session that it was refused before is not waited for any more. */
  opened(capability: string, account: string): void;
  /** Sessions waited for, by capability: of each account as many as it asked for within a few seconds at most. */
  demand(): Map<string, number>;
}

export function createRefusedOpens(clock: () => number = () => performance.now()): RefusedOpens {
  /** By capability and account: opens by the time at which their few seconds began. */
  const opens = new Map<string, Map<number, number>>();
  let remembered = 0;
  const keyOf = (capability: string, account: string) => `${capability} ${account}`;

  function forget(): void {
    const before = clock() - REMEMBERED_MS;
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
      const at = Math.floor(clock() / BUCKET_MS) * BUCKET_MS;
      const buckets = opens.get(key) ?? new Map<number, number>();
      opens.set(key, buckets.set(at, (buckets.get(at) ?? 0) + 1));
      remembered++;
    },
    opened(capability, account) {
      const buckets = opens.get(keyOf(capability, account)) ?? new Map<number, number>();
      for (const [at, count] of buckets) {
        // Those that never were refused are no credit for one that will be.
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
