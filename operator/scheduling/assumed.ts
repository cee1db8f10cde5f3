import type { Placed } from './schedule.ts';

/** Placements that the resources do not show yet. */
export interface AssumedPlacements {
  add(placed: Placed): void;
  has(uid: string): boolean;
  get(uid: string): Placed | undefined;
  on(agent: string): Iterable<Placed>;
  /** Returns the removed placement; undefined when there was none. */
  remove(uid: string): Placed | undefined;
  clear(): void;
}

export function createAssumedPlacements(): AssumedPlacements {
  const byJob = new Map<string, Placed>();
  const byAgent = new Map<string, Set<Placed>>();
  return {
    add(placed) {
      byJob.set(placed.job.uid, placed);
      const here = byAgent.get(placed.agent) ?? new Set();
      byAgent.set(placed.agent, here.add(placed));
    },
    has: (uid) => byJob.has(uid),
    get: (uid) => byJob.get(uid),
    on: (agent) => byAgent.get(agent) ?? [],
    remove(uid) {
      const placed = byJob.get(uid);
      if (!placed) return undefined;
      byJob.delete(uid);
      const here = byAgent.get(placed.agent);
      here?.delete(placed);
      if (here?.size === 0) byAgent.delete(placed.agent);
      return placed;
    },
    clear() {
      byJob.clear();
      byAgent.clear();
    },
  };
}
