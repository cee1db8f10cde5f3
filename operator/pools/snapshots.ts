import type { Reflector } from '@semblance/common/kube/index';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { blockedBy } from './blocked.ts';
import { shareDemand } from './demand.ts';
import type { Faults } from './faults.ts';
import { type Observer, podsOf, profileOf } from './observe.ts';
import type { Pod } from './pod.ts';
import type { RefusedOpens } from './refused-opens.ts';
import { settingsOf } from './scaling.ts';
import { revisionOf } from './template.ts';
import { type Demand, isReady, NO_DEMAND, type PoolSnapshot } from './types.ts';

export interface SnapshotsOptions {
  readonly pools: Reflector<AgentPool>;
  readonly pods: Reflector<Pod>;
  /** Returns the RenderJobs that wait and could begin, by capability. */
  readonly waitingJobs: () => Omit<Demand, 'opens'>;
  readonly observer: Observer;
  readonly opens: RefusedOpens;
  readonly faults: Faults;
  /** Names of Pods that refused the last plan, by pool. */
  readonly refused: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Collects what `reconcile` decides about a pool from. */
export interface Snapshots {
  /** Returns the pool's present share of all waiting work. */
  demandOf(pool: string): Demand;
  snapshotOf(pool: AgentPool, pods: readonly Pod[], demand: Demand): PoolSnapshot;
}

export function createSnapshots(options: SnapshotsOptions): Snapshots {
  const { pools, pods, waitingJobs, observer, opens, faults, refused } = options;

  function demandOf(name: string): Demand {
    const demand = { ...waitingJobs(), opens: opens.demand() };
    if (demand.jobs.size + demand.opens.size === 0) return demand;
    const bidders = pools.list().map((pool) => {
      const snapshot = snapshotOf(pool, podsOf(pods, pool), NO_DEMAND);
      const of = pool.metadata.name ?? '';
      const max = settingsOf(pool).autoscaling?.max;
      return {
        name: of,
        profile: snapshot.profile,
        pods: snapshot.pods,
        max,
        blocked: blockedBy(snapshot) !== undefined,
      };
    });
    return shareDemand(demand, bidders).get(name) ?? NO_DEMAND;
  }

  function snapshotOf(pool: AgentPool, of: readonly Pod[], demand: Demand): PoolSnapshot {
    const { name = '', uid = '' } = pool.metadata;
    const revision = revisionOf(pool);
    const seen = of.map(observer.podOf);
    for (const pod of seen) if (isReady(pod)) faults.served(uid, pod.revision, pod.createdAt);
    return {
      pool,
      revision,
      demand,
      pods: seen,
      profile: profileOf(pool, revision, seen),
      hold: faults.pauseOf(uid, revision),
      refused: refused.get(name) ?? new Set(),
      now: Date.now(),
    };
  }

  return { demandOf, snapshotOf };
}
