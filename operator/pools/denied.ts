import type { Reflector } from '@semblance/common/kube/index';
import type { AgentPool, AgentPoolStatus } from '@semblance/crds/gen/agentpools';
import { type Condition, withCondition } from '../conditions.ts';
import type { Pod } from './pod.ts';

type Watched<T extends Pod | AgentPool> = Pick<Reflector<T>, 'denied' | 'hasSynced' | 'healthySince'>;

/**
 * Check for `/readyz` of whether pools are managed. An operator without the permissions is ready all the same, and
 * says so. Jobs and sessions go on with the present agents, and this may be intended, for example if agents are
 * started by other means.
 * @throws while pools are managed and cannot be read
 */
export function poolsTold(of: { readonly pools: Watched<AgentPool>; readonly pods: Watched<Pod> }) {
  return (): string => {
    const { pools, pods } = of;
    const denied = pools.denied ?? pods.denied;
    if (denied !== undefined) return `not managed: no agent is started, replaced or removed (${denied})`;
    for (const [name, { hasSynced, healthySince }] of [
      ['AgentPools', pools],
      ['Pods', pods],
    ] as const) {
      if (!hasSynced) throw new Error(`the list of ${name} has not been read yet`);
      if (healthySince === undefined) throw new Error(`the watch of ${name} is interrupted`);
    }
    return 'ok';
  };
}

/**
 * Returns the status of a pool while Pods may not be read; what was known stays. Undefined: the status already says
 * so.
 */
export function deniedStatus(pool: AgentPool, denied: string, now: number): AgentPoolStatus | undefined {
  const before = pool.status?.conditions as Condition[] | undefined;
  const ready = {
    ...({ type: 'Ready', status: 'Unknown', reason: 'PodsForbidden' } as const),
    message: `The operator may not read Pods, so that it starts, replaces and removes none: ${denied}.`,
    observedGeneration: pool.metadata.generation ?? 0,
  };
  const published = before?.find(({ type }) => type === 'Ready');
  if (published?.reason === ready.reason && published.observedGeneration === ready.observedGeneration)
    return undefined;
  return {
    ...pool.status,
    observedGeneration: ready.observedGeneration,
    conditions: withCondition(before, ready, now).map((each) => ({ ...each })),
  };
}
