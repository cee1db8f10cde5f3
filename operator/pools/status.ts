import type { AgentPool, AgentPoolStatus } from '@semblance/crds/gen/agentpools';
import { type Condition, withCondition } from '../conditions.ts';
import { blockedBy } from './blocked.ts';
import { nameOfSet } from './model-sets.ts';
import { POOL_LABEL } from './pod.ts';
import { isLive, settingsOf } from './scaling.ts';
import { isDraining, isReady, type Plan, type PoolPod, type PoolSnapshot, workOn } from './types.ts';

type Told = Omit<Condition, 'lastTransitionTime' | 'type'>;

/** Returns the status of the pool once the plan is under way. Conditions keep their times while they hold. */
export function statusOf(snapshot: PoolSnapshot, plan: Plan, names: readonly string[]): AgentPoolStatus {
  const { pool, revision, now, demand, profile, pods } = snapshot;
  const { present, desired } = plan;
  const ready = present.filter(isReady);
  const old = present.filter((pod) => pod.revision !== revision);
  let slots = 0;
  let slotsUsed = 0;
  for (const { agent } of ready) {
    slots += agent?.slots ?? 0;
    for (const live of agent?.live.values() ?? []) slots += live.slots;
  }
  for (const pod of present) slotsUsed += workOn(pod);
  let slotsWaiting = 0;
  for (const [capability, count] of demand.jobs) slotsWaiting += count * (profile.costs.get(capability) ?? 1);
  for (const count of demand.opens.values()) slotsWaiting += count;

  const creating = [...plan.claims, ...names];
  let conditions = pool.status?.conditions as Condition[] | undefined;
  const conditionsNow = {
    Ready: readiness(snapshot, plan),
    Progressing: progress(snapshot, plan, creating.length),
    ScalingLimited: limit(snapshot, plan),
  };
  for (const [type, condition] of Object.entries(conditionsNow))
    conditions = withCondition(conditions, { type, ...condition }, now);
  return {
    observedGeneration: pool.metadata.generation ?? 0,
    desiredReplicas: desired,
    replicas: present.length,
    readyReplicas: ready.length,
    updatedReplicas: present.length - old.length,
    busyReplicas: present.filter((pod) => workOn(pod) > 0).length,
    drainingReplicas: present.filter(isDraining).length,
    slots,
    slotsUsed,
    slotsWaiting,
    selector: `${POOL_LABEL}=${pool.metadata.name}`,
    currentRevision:
      old.length === 0 && creating.length === 0 ? revision : (pool.status?.currentRevision ?? revision),
    updateRevision: revision,
    ...(creating.length > 0 && { creating }),
    ...perAgentOf(snapshot),
    conditions: (conditions ?? []).map((each) => ({ ...each })),
  };

  function perAgentOf(of: PoolSnapshot): Pick<AgentPoolStatus, 'perAgent'> {
    if (!of.profile.known) return pool.status?.perAgent ? { perAgent: pool.status.perAgent } : {};
    const best = pods.filter((pod) => isReady(pod) && pod.revision === revision);
    if (best.length === 0) return pool.status?.perAgent ? { perAgent: pool.status.perAgent } : {};
    return {
      perAgent: {
        revision,
        slots: of.profile.slots,
        renders: [...of.profile.costs].map(([name, each]) => ({ name, slots: each })),
        live: [...of.profile.live].map(([name, each]) => ({ name, slots: each })),
      },
    };
  }
}

function readiness(snapshot: PoolSnapshot, { desired, kept }: Plan): Told {
  const { pool, profile } = snapshot;
  const ready = kept.filter(isReady);
  const missing = (pool.spec.capabilities ?? []).filter((each) => !profile.capabilities.has(each));
  const note =
    profile.known && missing.length > 0
      ? ` None offers ${missing.join(', ')}, which spec.capabilities names.`
      : '';
  const say = (status: Told['status'], reason: string, message: string): Told => ({
    status,
    reason,
    message: `${message}${note}`,
    observedGeneration: pool.metadata.generation ?? 0,
  });
  if (desired === 0) {
    const why = pool.spec.autoscaling
      ? `; one is started when work for ${pool.spec.capabilities?.join(', ') ?? 'it'} waits`
      : ': spec.replicas is 0';
    return say('True', 'ScaledToZero', `No agent is wanted${why}.`);
  }
  if (ready.length >= desired)
    return say('True', 'AgentsReady', `${ready.length} of ${count(desired)} take work.`);
  const blocked = blockedBy(snapshot);
  const so = `${ready.length} of ${count(desired)} take work`;
  if (blocked) return say('False', blocked.reason, `${so}; ${blocked.message}`);
  const waiting = kept.find((pod) => !isReady(pod) && pod.obstacle);
  if (waiting?.obstacle)
    return say('False', waiting.obstacle.reason, `${so}; ${waiting.name}: ${waiting.obstacle.message}`);
  const fetching = kept.filter((pod) => pod.fetching !== undefined);
  const least = Math.min(...fetching.map((pod) => pod.fetching ?? 0));
  if (fetching.length > 0)
    return say(
      'False',
      'FetchingModels',
      `${so}; ${names(fetching)} fetching models; the slowest is at ${nameOfSet(pool, least)}.`,
    );
  const out = kept.filter(({ agent }) => agent?.outOfService);
  if (out.length > 0)
    return say('False', 'AgentsOutOfService', `${so}; ${names(out)} drained, on a cordoned node, or ending.`);
  return say('False', 'AgentsStarting', `${so}; the others are starting.`);
}

function progress(snapshot: PoolSnapshot, { desired, kept, present, create }: Plan, creating: number): Told {
  const { pool, revision } = snapshot;
  const observedGeneration = pool.metadata.generation ?? 0;
  const say = (status: Told['status'], reason: string, message: string): Told => ({
    status,
    reason,
    message,
    observedGeneration,
  });
  const old = present.filter((pod) => pod.revision !== revision).length;
  const leaving = present.filter(isDraining);
  const ready = kept.filter(isReady).length;
  const blocked = blockedBy(snapshot);
  if (blocked && (ready < desired || old > 0)) return say('False', blocked.reason, blocked.message);
  if (old > 0)
    return say(
      'True',
      'RollingUpdate',
      `${count(old)} of a former template, to be replaced as others become ready.`,
    );
  if (create > 0 || creating > 0 || kept.length < desired || ready < Math.min(desired, kept.length))
    return say('True', 'ScalingUp', `${desired - ready} more to become ready.`);
  if (leaving.length > 0)
    return say('True', 'ScalingDown', `${names(leaving)} finishing what runs, then removed.`);
  return say('False', 'Stable', 'As many agents run as are wanted, all of the present template.');
}

function limit({ pool, demand }: PoolSnapshot, { needed }: Plan): Told {
  const { autoscaling } = settingsOf(pool);
  const observedGeneration = pool.metadata.generation ?? 0;
  if (!autoscaling || needed === undefined)
    return {
      status: 'False',
      reason: 'NotAutoscaled',
      message: 'spec.replicas is obeyed.',
      observedGeneration,
    };
  if (needed <= autoscaling.max)
    return {
      status: 'False',
      reason: 'WithinBounds',
      message: 'maxReplicas is enough for what there is.',
      observedGeneration,
    };
  const waits = [...new Set([...demand.jobs.keys(), ...demand.opens.keys()])].toSorted();
  const what =
    waits.length > 0
      ? `; ${waits.map((each) => (isLive(each) ? `${each} sessions` : each)).join(', ')} wait`
      : '';
  const message = `More than the ${autoscaling.max} agents of maxReplicas would be run${what}.`;
  return { status: 'True', reason: 'AtMaximum', message, observedGeneration };
}

const count = (agents: number): string => `${agents} agent${agents === 1 ? '' : 's'}`;

function names(pods: readonly PoolPod[]): string {
  const some = pods.slice(0, 3).map(({ name }) => name);
  const more = pods.length - some.length;
  return `${some.join(', ')}${more > 0 ? ` and ${more} more` : ''} ${pods.length === 1 ? 'is' : 'are'}`;
}

/** Compares two statuses. `counts`: they differ only in counts that come and go. */
export function compareStatus(
  before: AgentPool['status'],
  after: AgentPoolStatus,
): 'same' | 'counts' | 'urgent' {
  if (JSON.stringify(sorted(before)) === JSON.stringify(sorted(after))) return 'same';
  const weighty = ({ busyReplicas: _b, slotsUsed: _u, slotsWaiting: _w, ...rest }: AgentPoolStatus) =>
    JSON.stringify(sorted(rest));
  return before && weighty(before) === weighty(after) ? 'counts' : 'urgent';
}

/** The API returns fields in its own order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, sorted(each)]),
  );
}
