import type { AgentPool, AgentPoolStatus } from '@semblance/crds/gen/agentpools';
import { reconcile } from '@semblance/operator/pools/reconcile';
import {
  NO_DEMAND,
  type PoolAgent,
  type PoolPod,
  type PoolSnapshot,
  type Profile,
} from '@semblance/operator/pools/types';

const NOW = Date.parse('2026-01-01T12:00:00.000Z');
export const secondsAgo = (seconds: number): number => NOW - seconds * 1000;

export function poolOf(spec: Partial<AgentPool['spec']> = {}, status?: AgentPoolStatus): AgentPool {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'AgentPool',
    metadata: { name: 'gpu', namespace: 'ns', uid: 'pool-uid', generation: 1 },
    spec: { template: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } }, ...spec },
    ...(status && { status }),
  };
}

/** Returns an agent; by default it is ready, without work, and idle since its creation. */
export function agentOf(more: Partial<PoolAgent> = {}): PoolAgent {
  return {
    ready: true,
    outOfService: false,
    slots: 2,
    used: 0,
    drained: undefined,
    costs: new Map([['face-swap', 1]]),
    live: new Map(),
    idleSince: secondsAgo(3_600),
    ...more,
  };
}

export const busy = (used: number, more: Partial<PoolAgent> = {}): PoolAgent =>
  agentOf({ used, idleSince: undefined, ...more });
export const drained = (why: 'ScaleDown' | 'RollingUpdate', more: Partial<PoolAgent> = {}): PoolAgent =>
  agentOf({ ready: false, idleSince: undefined, drained: { since: secondsAgo(60), why }, ...more });

/** Returns a Pod; by default its agent is ready. */
export function podOf(name: string, more: Partial<PoolPod> = {}): PoolPod {
  return {
    name,
    uid: `uid-${name}`,
    revision: 'new',
    createdAt: secondsAgo(3_700),
    terminating: false,
    end: undefined,
    scheduled: true,
    unreadySince: undefined,
    obstacle: undefined,
    fetching: undefined,
    deleteFirst: false,
    served: true,
    agent: agentOf(),
    ...more,
  };
}

/** Returns a Pod that is on its node and whose agent has not registered. */
export const starting = (name: string, more: Partial<PoolPod> = {}): PoolPod =>
  podOf(name, {
    agent: undefined,
    served: false,
    unreadySince: secondsAgo(30),
    createdAt: secondsAgo(60),
    ...more,
  });

export function profileWith(more: Partial<Profile> = {}): Profile {
  return {
    slots: 2,
    costs: new Map([['face-swap', 1]]),
    live: new Map(),
    known: true,
    capabilities: new Set(['face-swap']),
    ...more,
  };
}

export function snapshotWith(more: Partial<PoolSnapshot> = {}): PoolSnapshot {
  return {
    pool: poolOf(),
    revision: 'new',
    pods: [],
    profile: profileWith(),
    now: NOW,
    demand: NO_DEMAND,
    hold: undefined,
    refused: new Set<string>(),
    ...more,
  };
}

/**
 * Returns the plan in short form: `+2` for created Pods, `!a` for claimed ones, then `drain a`, `undrain a`,
 * `remove a: Why` in order.
 */
export function planned(more: Partial<PoolSnapshot>): { desired: number; does: string[] } {
  const { desired, create, claims, actions } = reconcile(snapshotWith(more));
  const does = actions.map((action) =>
    action.type === 'remove'
      ? `remove ${action.pod.name}: ${action.reason}`
      : `${action.type} ${action.pod.name}`,
  );
  return {
    desired,
    does: [...(create > 0 ? [`+${create}`] : []), ...claims.map((name) => `!${name}`), ...does],
  };
}

/** Title, state, desired number of agents, and expected actions. */
export type Case = [string, Partial<PoolSnapshot>, number, string[]];

export const replicas = (count: number, status?: AgentPoolStatus, more: Partial<AgentPool['spec']> = {}) =>
  poolOf({ replicas: count, ...more }, status);
export const auto = (
  bounds: Partial<NonNullable<AgentPool['spec']['autoscaling']>>,
  desiredReplicas?: number,
  more: Partial<AgentPool['spec']> = {},
) =>
  poolOf(
    { autoscaling: { maxReplicas: 4, ...bounds }, capabilities: ['face-swap'], ...more },
    desiredReplicas === undefined ? undefined : { desiredReplicas },
  );
export const jobs = (count: number, passedOver = 0) => ({
  jobs: new Map([['face-swap', count]]),
  passedOver: new Map([['face-swap', passedOver]]),
  opens: new Map(),
});
export const opens = (count: number) => ({ ...NO_DEMAND, opens: new Map([['voice', count]]) });
export const pods = (...names: string[]): PoolPod[] => names.map((name) => podOf(name));
export const old = (name: string, more: Partial<PoolPod> = {}) => podOf(name, { revision: 'old', ...more });
export const idleFor = (seconds: number) => agentOf({ idleSince: secondsAgo(seconds) });
