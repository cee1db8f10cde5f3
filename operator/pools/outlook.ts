import { blockedBy } from './blocked.ts';
import type { Fault } from './pod.ts';
import { isLive, rendersPerAgent, settingsOf } from './scaling.ts';
import { isReady, type Plan, type PoolSnapshot } from './types.ts';

/** What a pool can be expected to provide. */
export interface Outlook {
  readonly pool: string;
  readonly capabilities: ReadonlySet<string>;
  readonly ready: number;
  readonly desired: number;
  /** Most agents that the pool may start by itself; undefined: a person or another autoscaler decides. */
  readonly max: number | undefined;
  /** Why the pool cannot start agents, if it cannot. */
  readonly fault: Fault | undefined;
}

export function makeOutlook(snapshot: PoolSnapshot, { desired, kept }: Plan): Outlook {
  const { pool, profile } = snapshot;
  return {
    pool: pool.metadata.name ?? '',
    desired,
    capabilities: new Set(
      [...profile.capabilities].filter((each) => isLive(each) || rendersPerAgent(profile, each) > 0),
    ),
    ready: kept.filter(isReady).length,
    max: settingsOf(pool).autoscaling?.max,
    fault: blockedBy(snapshot),
  };
}

const isStarting = ({ fault, ready, desired }: Outlook) => !fault && ready < desired;
const canGrow = ({ fault, desired, max }: Outlook) => !fault && max !== undefined && desired < max;

/** Returns whether capacity for it is starting or can still be started. */
export function mayGrow(outlooks: Iterable<Outlook>, capability: string): boolean {
  for (const each of outlooks)
    if (each.capabilities.has(capability) && (isStarting(each) || canGrow(each))) return true;
  return false;
}

/**
 * Returns why jobs of a capability wait, if pools have to do with it. `others`: the obstacle without regard to
 * pools.
 */
export function explainWaiting(
  outlooks: Iterable<Outlook>,
  capability: string,
  others: { readonly reason: string; readonly message: string },
): { readonly reason: string; readonly message: string } | undefined {
  const able = [...outlooks]
    .filter(({ capabilities }) => capabilities.has(capability))
    .toSorted((a, b) => (a.pool < b.pool ? -1 : 1));
  const busy = others.reason === 'SlotsBusy' ? `; ${others.message}` : '.';
  const starting = able.find(isStarting) ?? able.find(canGrow);
  if (starting) {
    const { pool, ready, desired } = starting;
    const message = `pool ${pool} is starting agents, ${ready} of ${Math.max(desired, ready + 1)} ready${busy}`;
    return { reason: 'PoolScalingUp', message };
  }
  const full = able.find(({ max, desired, fault }) => !fault && max !== undefined && desired >= max);
  if (full) {
    const message = `pool ${full.pool} is at its maximum of ${full.max} agent${full.max === 1 ? '' : 's'}${busy}`;
    return { reason: 'PoolAtMaximum', message };
  }
  const blocked = able.find(({ fault, ready, desired }) => fault && ready < desired);
  if (!blocked?.fault) return undefined;
  return {
    reason: 'PoolBlocked',
    message: `pool ${blocked.pool} cannot start agents (${blocked.fault.message})${busy}`,
  };
}
