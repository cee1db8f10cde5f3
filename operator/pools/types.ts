import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { Fault } from './pod.ts';

export type DrainReason = 'ScaleDown' | 'RollingUpdate';

/** The GpuAgent of a Pod, as the operator sees it. */
export interface PoolAgent {
  /** The agent takes work. */
  readonly ready: boolean;
  /** The agent lives, but a person, its node or its own end keeps it from new work. */
  readonly outOfService: boolean;
  /** Renders that the agent can hold at once, and slots taken. */
  readonly slots: number;
  readonly used: number;
  /** Slots that one render takes, by capability. */
  readonly costs: ReadonlyMap<string, number>;
  /** Live sessions that the agent can hold at once, and sessions held, by capability. */
  readonly live: ReadonlyMap<string, { readonly slots: number; readonly used: number }>;
  /** Set while the operator drains it; `since` in Unix milliseconds. */
  readonly drained: { readonly since: number; readonly why: DrainReason } | undefined;
  /** Unix milliseconds since when it is ready, warm and without work. */
  readonly idleSince: number | undefined;
}

/** A Pod of a pool. All times are in Unix milliseconds. */
export interface PoolPod {
  readonly name: string;
  readonly uid: string;
  readonly revision: string;
  readonly createdAt: number;
  readonly terminating: boolean;
  /** The Pod has ended and will not come back. */
  readonly end: Fault | undefined;
  readonly scheduled: boolean;
  /**
   * Since when it is on a node and not ready; undefined while it is ready, waits for a node, fetches models, or is out of service.
   */
  readonly unreadySince: number | undefined;
  readonly obstacle: Fault | undefined;
  /** Number of the model set that it fetches, from 1; its agent has not started. */
  readonly fetching: number | undefined;
  readonly deleteFirst: boolean;
  /** It has been ready before, so its end does not prove that it cannot be started. */
  readonly served: boolean;
  readonly agent: PoolAgent | undefined;
}

/** Work that waits for a pool, by capability: RenderJobs, and live sessions that found no slot. */
export interface Demand {
  readonly jobs: ReadonlyMap<string, number>;
  /** Those of the jobs that have waited so long that free slots, if any, do not help them. */
  readonly passedOver: ReadonlyMap<string, number>;
  readonly opens: ReadonlyMap<string, number>;
}

export const NO_DEMAND: Demand = { jobs: new Map(), passedOver: new Map(), opens: new Map() };

export interface PoolSnapshot {
  readonly pool: AgentPool;
  readonly revision: string;
  readonly pods: readonly PoolPod[];
  readonly demand: Demand;
  /** What one agent holds, as far as known. */
  readonly profile: Profile;
  /** Pause after failed starts: no Pod is created before `until` (Unix milliseconds). */
  readonly hold: (Fault & { readonly until: number }) | undefined;
  /** Claimed names that the API refused for good. */
  readonly refused: ReadonlySet<string>;
  readonly now: number;
}

/** Capacity of one agent of the pool. */
export interface Profile {
  readonly slots: number;
  /** Slots that one render takes, by capability; a missing capability takes one. */
  readonly costs: ReadonlyMap<string, number>;
  readonly live: ReadonlyMap<string, number>;
  /** Capabilities that the pool can be relied on to offer. */
  readonly capabilities: ReadonlySet<string>;
  /** Reported by an agent of the present revision. */
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
      /** Something is wrong with the Pod: report it, and delay the next one unless this one had served. */
      readonly fault: boolean;
    };

export interface Plan {
  readonly desired: number;
  /** Agents that the work needs, whatever the bounds; undefined without autoscaling. */
  readonly needed: number | undefined;
  /** Pods to create beyond those claimed. */
  readonly create: number;
  /** Names claimed but not created yet. */
  readonly claims: readonly string[];
  readonly actions: readonly Action[];
  /** Pods that exist and are not ending. */
  readonly present: readonly PoolPod[];
  /** Those of them that stay. */
  readonly kept: readonly PoolPod[];
}

export const isReady = ({ agent }: PoolPod): boolean => agent?.ready ?? false;
export const isDraining = ({ agent }: PoolPod): boolean => agent?.drained !== undefined;

/** Returns the slots and sessions taken on its agent. */
export function workOn({ agent }: PoolPod): number {
  if (!agent) return 0;
  let work = agent.used;
  for (const { used } of agent.live.values()) work += used;
  return work;
}
