import type { Reflector } from '@semblance/common/kube/index';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Fleet } from '../agents/fleet.ts';
import type { LiveTerm } from '../livesession/live-term.ts';
import type { Scheduler } from '../scheduling/scheduler.ts';
import { fetchedAt, fetchedSet } from './model-sets.ts';
import {
  DELETE_FIRST,
  endOf,
  type Fault,
  isPodReady,
  obstacleOf,
  ownerOf,
  POOL_LABEL,
  type Pod,
  REVISION_LABEL,
  readySince,
  scheduledAt,
} from './pod.ts';
import { isLive } from './scaling.ts';
import { envOf } from './template.ts';
import type { DrainReason, PoolAgent, PoolPod, Profile } from './types.ts';

/**
 * Annotations of a GpuAgent that the operator drains: since when, and why. One that a person drains has neither,
 * and is left alone.
 */
export const DRAIN_SINCE = 'semblance.dev/drain-since';
export const DRAIN_REASON = 'semblance.dev/drain-reason';

/** Reasons for not being ready that are no fault of the agent. */
const OUT_OF_SERVICE: ReadonlySet<string> = new Set(['Draining', 'NodeCordoned', 'PodTerminating']);
/** Time for an agent to register and be reached, in ms. */
const REACHED_WITHIN_MS = 30_000;

export interface ObserverOptions {
  readonly agents: Reflector<GpuAgent>;
  readonly fleet: Pick<Fleet, 'viewOf'>;
  readonly scheduler: Pick<Scheduler, 'usedOn'>;
  readonly live: Pick<LiveTerm, 'usedOn'>;
}

/** Combines Pods and GpuAgents for decisions, and remembers what neither says: since when an agent is idle. */
export interface Observer {
  podOf(pod: Pod): PoolPod;
  /** Notes that the agent did some work just now, however short. */
  worked(agent: string): void;
  /** Notes the requested deletion, which the local copy may not show yet. */
  removed(uid: string): void;
  forget(pod: Pod): void;
}

export function createObserver(options: ObserverOptions): Observer {
  const { agents, fleet, scheduler, live } = options;
  const idleSince = new Map<string, number>();
  const served = new Set<string>();
  const removed = new Set<string>();

  function agentOf(
    agent: GpuAgent | undefined,
    name: string,
    podReady: boolean,
    now: number,
  ): PoolAgent | undefined {
    if (!agent?.status?.incarnation) return undefined;
    const view = fleet.viewOf(agent);
    const { ready, reason } = view.readiness;
    const used = scheduler.usedOn(view);
    const sessions = live.usedOn(view);
    const drained = drainOf(agent);
    const warming = [...view.live.values()].some((each) => each.warming);
    const busy = used > 0 || [...sessions.values()].some((count) => count > 0);
    if (!ready || !podReady || warming || busy) idleSince.delete(name);
    else if (!idleSince.has(name)) idleSince.set(name, now);
    return {
      ready: ready && podReady,
      outOfService: !ready && !drained && OUT_OF_SERVICE.has(reason),
      slots: view.slots,
      used,
      costs: view.costs,
      drained,
      live: new Map([...view.live].map(([of, { slots }]) => [of, { slots, used: sessions.get(of) ?? 0 }])),
      idleSince: idleSince.get(name),
    };
  }

  function unreachable(agent: GpuAgent | undefined): Fault | undefined {
    const { reason, message } = agent ? fleet.viewOf(agent).readiness : {};
    return reason === 'Unreachable' ? { reason, message: message ?? '' } : undefined;
  }

  /** Returns a fault when an agent runs without a GpuAgent of its Pod's name: the template named another. */
  function unknown(pod: Pod, agent: GpuAgent | undefined, now: number): Fault | undefined {
    if (agent?.status?.incarnation || !isPodReady(pod)) return undefined;
    if (now - (readySince(pod) ?? now) <= REACHED_WITHIN_MS) return undefined;
    const message =
      'it runs, and there is no GpuAgent of its name: the template is to leave SEMBLANCE_AGENT_NAME and SEMBLANCE_NAMESPACE out';
    return { reason: 'AgentNotRegistered', message };
  }

  return {
    podOf(pod) {
      const {
        name = '',
        uid = '',
        labels,
        annotations,
        creationTimestamp = '',
        deletionTimestamp,
      } = pod.metadata;
      const now = Date.now();
      const resource = agents.get(name);
      const agent = agentOf(resource, name, isPodReady(pod), now);
      if (agent?.ready) served.add(uid);
      const at = scheduledAt(pod);
      const since = Math.max(at ?? 0, lostAt(pod, resource), fetchedAt(pod));
      const fetching = fetchedSet(pod);
      // The agent lives and may be at work. This operator cannot reach it, which is no reason to end it.
      const unreached = agent !== undefined && isPodReady(pod) ? unreachable(resource) : undefined;
      const failing =
        !agent?.ready && !agent?.outOfService && !agent?.drained && !unreached && fetching === undefined;
      return {
        name,
        uid,
        revision: labels?.[REVISION_LABEL] ?? '',
        createdAt: Date.parse(creationTimestamp) || 0,
        terminating: deletionTimestamp !== undefined || removed.has(uid),
        end: endOf(pod),
        scheduled: at !== undefined,
        unreadySince: failing && at !== undefined ? since : undefined,
        obstacle:
          obstacleOf(pod) ??
          unknown(pod, resource, now) ??
          (now - since > REACHED_WITHIN_MS ? unreached : undefined),
        fetching,
        deleteFirst: annotations?.[DELETE_FIRST] === 'true',
        served: served.has(uid),
        agent,
      };
    },
    worked: (agent) => void idleSince.delete(agent),
    removed: (uid) => void removed.add(uid),
    forget({ metadata: { uid = '', name = '' } }) {
      idleSince.delete(name);
      served.delete(uid);
      removed.delete(uid);
    },
  };
}

/** Returns when the Pod or its agent last lost readiness, in Unix milliseconds; 0: neither did. */
function lostAt(pod: Pod, agent: GpuAgent | undefined): number {
  const since = (conditions: Pod['status'] | GpuAgent['status']) => {
    const ready = conditions?.conditions?.find(({ type }) => type === 'Ready');
    return ready && ready.status !== 'True' ? Date.parse(ready.lastTransitionTime ?? '') || 0 : 0;
  };
  return Math.max(since(pod.status), since(agent?.status));
}

function drainOf({ metadata, spec }: GpuAgent): PoolAgent['drained'] {
  const since = Date.parse(metadata.annotations?.[DRAIN_SINCE] ?? '');
  const why = metadata.annotations?.[DRAIN_REASON];
  if (!spec.drain || !Number.isFinite(since) || (why !== 'ScaleDown' && why !== 'RollingUpdate'))
    return undefined;
  return { since, why: why satisfies DrainReason };
}

export const podsOf = (pods: Reflector<Pod>, pool: AgentPool): Pod[] =>
  pods.byIndex('pool', pool.metadata.uid ?? '');
export const POD_INDEXERS = {
  pool: (pod: Pod) => {
    // A Pod whose label somebody removed is released, as by a ReplicaSet.
    const owner = pod.metadata.labels?.[POOL_LABEL] === undefined ? undefined : ownerOf(pod);
    return owner === undefined ? [] : [owner];
  },
};

/**
 * Returns the capacity of one agent: as a ready agent of the present revision reports, else as last seen, else by
 * the template.
 */
export function profileOf(pool: AgentPool, revision: string, pods: readonly PoolPod[]): Profile {
  const named = pool.spec.capabilities ?? [];
  const reporting = pods
    .filter((pod) => pod.agent?.ready && pod.revision === revision && !pod.terminating)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))[0]?.agent;
  const before = pool.status?.perAgent;
  const remembered = before && new Map((before.live ?? []).map(({ name, slots }) => [name, slots]));
  if (reporting) {
    const live = new Map(
      [...reporting.live].map(([of, { slots }]) => [of, slots || (remembered?.get(of) ?? 0)]),
    );
    const offered = new Set([...reporting.costs.keys(), ...live.keys()]);
    const capabilities = new Set(named.length > 0 ? named.filter((each) => offered.has(each)) : offered);
    return { slots: reporting.slots, costs: reporting.costs, live, capabilities, known: true };
  }
  const whole = (name: string) => Math.max(1, Math.trunc(Number(envOf(pool, name) ?? 1)) || 1);
  const costs = new Map((before?.renders ?? []).map(({ name, slots }) => [name, slots]));
  const capabilities = new Set<string>(
    named.length > 0 ? named : [...costs.keys(), ...(remembered?.keys() ?? [])],
  );
  if (before && remembered)
    return { slots: before.slots ?? 1, costs, live: remembered, capabilities, known: false };
  const live = new Map([
    ['voice', whole('SEMBLANCE_LIVE_VOICE_SLOTS')],
    ['full-live-swap', whole('SEMBLANCE_LIVE_VIDEO_SLOTS')],
  ]);
  return {
    slots: whole('SEMBLANCE_AGENT_SLOTS'),
    costs,
    known: false,
    capabilities,
    live: new Map([...live].filter(([each]) => capabilities.has(each) && isLive(each))),
  };
}
