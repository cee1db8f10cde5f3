import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { Fault } from './pod.ts';

/** Why the operator drains an agent. */
export type DrainReason = 'ScaleDown' | 'RollingUpdate';

/** Holds what the operator makes of the GpuAgent of a Pod. */
export interface PoolAgent {
  /** Takes work. */
  readonly ready: boolean;
  /** Lives, but is kept from new work by a person, its node or its own end: nothing is wrong with it. */
  readonly outOfService: boolean;
  /** Renders at once, and slots taken. */
  readonly slots: number;
  readonly used: number;
  /** Slots that one render takes, by capability. */
  readonly costs: ReadonlyMap<string, number>;
  /** Live sessions at once, and sessions held, by capability. */
  readonly live: ReadonlyMap<string, { readonly slots: number; readonly used: number }>;
  /** Set while the operator drains it. Unix milliseconds. */
  readonly drained: { readonly since: number; readonly why: DrainReason } | undefined;
  /** Since when it is ready, warm, and without work. Unix milliseconds. */
  readonly idleSince: number | undefined;
}

/** A Pod of a pool. All times in Unix milliseconds. */
export interface PoolPod {
  readonly name: string;
  readonly uid: string;
  readonly revision: string;
  readonly createdAt: number;
  /** It is being deleted. */
  readonly terminating: boolean;
  /** It has ended and will not come back. */
  readonly end: Fault | undefined;
  readonly scheduled: boolean;
  /** On a node and not ready since; undefined while it is ready, waits for a node, or is out of service. */
  readonly unreadySince: number | undefined;
  readonly obstacle: Fault | undefined;
  readonly deleteFirst: boolean;
  /** It has been ready before: its end is no sign that it cannot be started. */
  readonly served: boolean;
  readonly agent: PoolAgent | undefined;
}

/** Holds what waits for a pool, by capability: RenderJobs, and live sessions that found no slot. */
export interface Demand {
  readonly jobs: ReadonlyMap<string, number>;
  /** Of the jobs, those that have waited for so long that free slots, if there are any, do not help them. */
  readonly passedOver: ReadonlyMap<string, number>;
  readonly opens: ReadonlyMap<string, number>;
}

export const NO_DEMAND: Demand = { jobs: new Map(), passedOver: new Map(), opens: new Map() };

export interface PoolSnapshot {
  readonly pool: AgentPool;
  readonly revision: string;
  readonly pods: readonly PoolPod[];
  readonly demand: Demand;
  /** States what one agent holds, as far as known. */
  readonly profile: Profile;
  /** No Pod is made before this: starting them has failed. */
  readonly hold: (Fault & { readonly until: number }) | undefined;
  /** Claimed names that the API refused for good. */
  readonly refused: ReadonlySet<string>;
  readonly now: number;
}

/** Holds what one agent of the pool holds. */
export interface Profile {
  readonly slots: number;
  /** Slots that one render takes; a capability that is not in it takes one. */
  readonly costs: ReadonlyMap<string, number>;
  readonly live: ReadonlyMap<string, number>;
  /** States what the pool can be counted on for. */
  readonly capabilities: ReadonlySet<string>;
  /** Is told by an agent of the present revision. */
  readonly known: boolean;
}

export type Action =
  | { readonly type: 'drain'; readonly pod: PoolPod; readonly why: DrainReason }
  | { readonly type: 'undrain'; readonly pod: PoolPod }
  | {
      readonly type: 'remove';
      readonly pod: PoolPod;
      readonly reason: string;
      readonly note: string;
      /** Something is wrong with it: say so, and be slower to make the next one unless it had served. */
      readonly fault: boolean;
    };

export interface Plan {
  readonly desired: number;
  /** Agents that the work calls for, whatever the bounds; undefined without autoscaling. */
  readonly needed: number | undefined;
  /** Pods to make beyond those claimed. */
  readonly create: number;
  /** Names claimed and not made yet. */
  readonly claims: readonly string[];
  readonly actions: readonly Action[];
  /** Pods that are there and not ending. */
  readonly present: readonly PoolPod[];
  /** Of those, the ones that stay. */
  readonly kept: readonly PoolPod[];
}

export const isReady = ({ agent }: PoolPod): boolean => agent?.ready ?? false;
export const isDraining = ({ agent }: PoolPod): boolean => agent?.drained !== undefined;

/** Slots and sessions taken on its agent. */
export function workOn({ agent }: PoolPod): number {
  if (!agent) return 0;
  let work = agent.used;
  for (const { used } of agent.live.values()) work += used;
  return work;
}
