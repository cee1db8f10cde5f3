import type { AgentPool } from '@semblance/crds/gen/agentpools';
import { blockedBy } from './blocked.ts';
import { isReady, type PoolPod, type PoolSnapshot, type Profile } from './types.ts';

/** Returns the spec with the defaults of the API. */
export function settingsOf({ spec }: AgentPool) {
  const { autoscaling: auto, strategy } = spec;
  return {
    replicas: spec.replicas ?? 1,
    autoscaling: auto && {
      min: auto.minReplicas ?? 0,
      max: auto.maxReplicas,
      buffer: auto.bufferSlots ?? 0,
      idleMs: (auto.idleSeconds ?? 300) * 1000,
    },
    maxSurge: strategy?.maxSurge ?? 1,
    maxUnavailable: strategy?.maxUnavailable ?? 0,
    warmUpMs: (spec.warmUpSeconds ?? 600) * 1000,
    drainMs: (spec.drainSeconds ?? 3_600) * 1000,
  };
}

/** Returns how many renders of the capability one agent holds at once; 0: it is too small. */
export function rendersPerAgent({ slots, costs }: Profile, capability: string): number {
  return Math.floor(slots / (costs.get(capability) ?? 1));
}

const LIVE = new Set(['voice', 'full-live-swap']);
export const isLive = (capability: string): boolean => LIVE.has(capability);

/** Rounds up, but not for rounding errors: three times 1/3 must not make another agent. */
const whole = (agents: number): number => Math.ceil(agents - 1e-9);

/**
 * Returns how many agents hold the work of the staying Pods, the waiting work and the buffer. Renders share an
 * agent's slots; live sessions have slots of their own, by capability. The greatest of these needs counts, because
 * one agent serves them all.
 */
function agentsNeeded(snapshot: PoolSnapshot, kept: readonly PoolPod[], buffer: number): number {
  const { demand, profile } = snapshot;
  const ready = kept.filter(isReady);
  const capabilities = [...profile.capabilities];
  const needs = [0];

  let used = 0;
  for (const { agent } of kept) used += agent?.used ?? 0;
  let inAll = used / Math.max(1, profile.slots);
  let beyond = 0;
  for (const [capability, waiting] of demand.jobs) {
    const each = rendersPerAgent(profile, capability);
    if (each < 1 || !profile.capabilities.has(capability)) continue;
    inAll += waiting / each;
    // Slots may be free but too scattered for a render that takes several.
    const cost = profile.costs.get(capability) ?? 1;
    const fit = ready.reduce((sum, { agent }) => sum + free(agent?.slots, agent?.used, cost), 0);
    // A render may also need more than slots. If an idle agent does not take it, more agents of the kind would not
    // either.
    const inVain = ready.some(({ agent }) => agent?.used === 0);
    const passedOver = inVain ? 0 : (demand.passedOver.get(capability) ?? 0);
    beyond += Math.max(passedOver, waiting - fit, 0) / each;
  }
  if (capabilities.some((each) => !isLive(each))) inAll += buffer / Math.max(1, profile.slots);
  needs.push(whole(inAll));
  if (beyond > 0) needs.push(ready.length + whole(beyond));

  for (const capability of capabilities.filter(isLive)) {
    const each = Math.max(1, profile.live.get(capability) ?? 1);
    let held = (demand.opens.get(capability) ?? 0) + buffer;
    for (const { agent } of kept) held += agent?.live.get(capability)?.used ?? 0;
    needs.push(whole(held / each));
  }
  const needed = Math.max(...needs);
  // An agent kept from work by a person or a node serves nobody, though its Pod exists.
  return needed === 0 ? 0 : needed + kept.filter(({ agent }) => agent?.outOfService).length;
}

function free(slots = 0, used = 0, cost: number): number {
  return Math.floor(Math.max(0, slots - used) / cost);
}

export interface Decision {
  readonly desired: number;
  readonly needed: number | undefined;
  /** With autoscaling, the only Pods that may go for lack of work. */
  readonly expendable: ReadonlySet<string> | undefined;
}

/**
 * Decides how many agents to run. Without autoscaling: `replicas`. With it: up at once to the need, and down by one
 * at a time. An agent may go that is idle for long enough, or that was not ready within the warm-up time. None goes
 * while another still drains for a scale-down.
 */
export function decide(
  snapshot: PoolSnapshot,
  kept: readonly PoolPod[],
  present: readonly PoolPod[],
): Decision {
  const { pool, now } = snapshot;
  const { replicas, autoscaling, warmUpMs } = settingsOf(pool);
  if (!autoscaling) return { desired: replicas, needed: undefined, expendable: undefined };
  const { min, max, buffer, idleMs } = autoscaling;
  const clamp = (count: number) => Math.min(max, Math.max(min, count));
  const needed = agentsNeeded(snapshot, kept, buffer);
  const before = clamp(pool.status?.desiredReplicas ?? kept.length);
  const wanted = clamp(needed);

  const idle = kept.filter(
    (pod) => isReady(pod) && pod.agent?.idleSince !== undefined && now - pod.agent.idleSince >= idleMs,
  );
  const late = kept.filter((pod) => {
    // An agent that lives and is only unreachable may be at work.
    const fine = pod.scheduled && pod.unreadySince === undefined;
    if (isReady(pod) || pod.agent?.outOfService || fine) return false;
    return now - (pod.unreadySince ?? pod.createdAt) >= warmUpMs;
  });
  const expendable = new Set([...idle, ...late].map(({ uid }) => uid));
  if (wanted >= before) {
    // While none can be started, asking for more does not help.
    const futile = before > 0 && wanted > before && blockedBy(snapshot) !== undefined;
    return { desired: futile ? before : wanted, needed, expendable };
  }

  const leaving = present.some(({ agent }) => agent?.drained?.why === 'ScaleDown');
  const spared = late.length > 0 || (idle.length > 0 && kept.filter(isReady).length > wanted);
  const short = kept.length < before && late.length === 0 && snapshot.hold !== undefined;
  const down = !leaving && (spared || short);
  return { desired: down ? before - 1 : before, needed, expendable };
}
