import { createWorkQueue } from '@semblance/common/async/work-queue';
import {
  type EventRecorder,
  isKubeError,
  type KubeClient,
  LEASE_RESOURCE,
  type Lease,
  type Reflector,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { Registry } from 'prom-client';
import type { LiveTerm } from '../livesession/live-term.ts';
import type { Scheduler } from '../scheduling/scheduler.ts';
import { createAgentMetrics } from './agent-metrics.ts';
import { reconcileAgent } from './conditions.ts';
import type { Fleet } from './fleet.ts';
import type { LeaseTracker } from './lease-tracker.ts';
import { createTurns } from './turns.ts';
import { isDraining, type Readiness } from './view.ts';

/** Shortest interval between writes for one agent, in ms. Slots change faster than anybody reads them. */
const WRITE_EVERY_MS = 1_000;
/** Shortest interval between writes for all agents together, in ms. */
const WRITE_ANY_EVERY_MS = 200;

/** Delay before a retry after a write conflict, in ms. The watch brings the newer version meanwhile. */
const CONFLICT_MS = 100;

export interface AgentControllerOptions {
  readonly client: KubeClient;
  readonly agents: Pick<Reflector<GpuAgent>, 'get' | 'note'>;
  readonly leases: Pick<Reflector<Lease>, 'get'>;
  readonly leaseTracker: Pick<LeaseTracker, 'stateOf'>;
  readonly fleet: Pick<Fleet, 'viewOf' | 'fateOf'>;
  readonly scheduler: Pick<Scheduler, 'usedOn'>;
  readonly live: Pick<LiveTerm, 'usedOn'>;
  readonly recorder: EventRecorder;
  readonly logger: Logger;
  readonly registry: Registry;
  /** How long the resource of a dead agent is kept, in ms. */
  readonly retentionMs: number;
  /** Returns whether any RenderJob is still bound to the agent. */
  readonly hasWork: (agent: string) => boolean;
}

export interface AgentController {
  touch(agent: string): void;
  run(signal: AbortSignal): Promise<void>;
}

/** Writes the status of each agent, and removes agents that have been dead for long. */
export function createAgentController(options: AgentControllerOptions): AgentController {
  const { client, agents, fleet, scheduler, live, recorder, logger } = options;
  const writtenAt = new Map<string, number>();
  const turns = createTurns({ everyMs: WRITE_ANY_EVERY_MS, onTurn: (name) => queue.add(name) });
  const deadSince = new Map<string, number>();
  /** Type of the last event about each agent's readiness. */
  const toldAs = new Map<string, 'Normal' | 'Warning'>();
  const metrics = createAgentMetrics(options.registry);

  async function process(name: string, signal: AbortSignal): Promise<{ requeueAfterMs: number } | undefined> {
    const agent = agents.get(name);
    if (!agent) {
      turns.pass(name);
      writtenAt.delete(name);
      deadSince.delete(name);
      toldAs.delete(name);
      metrics.forget(name);
      return undefined;
    }
    const view = fleet.viewOf(agent);
    const { readiness } = view;
    const now = Date.now();
    const used = scheduler.usedOn(view);
    const liveUsed = live.usedOn(view);
    metrics.show(view, used, liveUsed);
    const status = reconcileAgent({ agent, readiness, slotsUsed: used, liveUsed, now });
    if (status) {
      const ready = (of: typeof status.conditions) => of?.find(({ type }) => type === 'Ready');
      const before = ready(agent.status?.conditions);
      const turned = before?.reason !== readiness.reason || before?.message !== readiness.message;
      const own = (writtenAt.get(name) ?? Number.NEGATIVE_INFINITY) + WRITE_EVERY_MS;
      const wait = turned ? 0 : own - performance.now();
      if (wait > 0) {
        turns.pass(name);
        return { requeueAfterMs: wait };
      }
      // An agent that takes no new work must show at once that its last work has ended.
      if (turned || !readiness.ready) turns.pass(name);
      else if (!turns.ask(name)) return undefined;
      writtenAt.set(name, performance.now());
      if (!(await write(agent, status, signal))) return { requeueAfterMs: CONFLICT_MS };
      const type = isOrdinary(name, readiness) ? 'Normal' : 'Warning';
      if (before?.reason !== readiness.reason || (toldAs.get(name) ?? type) !== type)
        recorder.event(agent, { type, reason: readiness.reason, action: 'Judge', note: readiness.message });
      toldAs.set(name, type);
    } else turns.pass(name);
    return retire(agent, signal);
  }

  /** Returns whether this readiness belongs to the normal life of an agent. */
  function isOrdinary(name: string, readiness: Readiness): boolean {
    if (readiness.ready || readiness.starting || isDraining(readiness)) return true;
    const lease = options.leases.get(name);
    // The process released the Lease after its work. A process that is cut off cannot.
    return readiness.reason === 'HeartbeatLost' && lease !== undefined && !lease.spec?.holderIdentity;
  }

  /**
   * Writes only to the version that the status was decided from, so that it never overwrites a later leader's
   * write.
   * @returns false when somebody else has written meanwhile, or the agent is gone
   */
  async function write(agent: GpuAgent, status: object, signal: AbortSignal): Promise<boolean> {
    const { name = '', namespace, uid, resourceVersion } = agent.metadata;
    try {
      const object = { metadata: { name, namespace, uid, resourceVersion }, status };
      agents.note(await client.apply(GPUAGENT_RESOURCE, object, { subresource: 'status', signal }));
      return true;
    } catch (error) {
      if (isKubeError(error, 'not_found', 'conflict')) return false;
      throw error;
    }
  }

  /** Deletes the resource of a process that has been dead for long and has no work. */
  async function retire(
    agent: GpuAgent,
    signal: AbortSignal,
  ): Promise<{ requeueAfterMs: number } | undefined> {
    const { name = '', namespace, uid, resourceVersion, creationTimestamp = '' } = agent.metadata;
    const { incarnation } = agent.status ?? {};
    const lease = options.leases.get(name);
    const young = Date.now() - Date.parse(creationTimestamp) < options.retentionMs;
    const gone = incarnation ? fleet.fateOf(name, incarnation) === 'lost' : !young;
    // A process that holds the Lease is about to register.
    const dead = gone && !isHeld(name, lease);
    if (!dead || options.hasWork(name)) {
      deadSince.delete(name);
      // No event tells when this changes, so the agent is checked again.
      const silent = !dead && (gone || !incarnation);
      return silent ? { requeueAfterMs: options.retentionMs } : undefined;
    }
    const since = deadSince.get(name) ?? performance.now();
    deadSince.set(name, since);
    const left = since + options.retentionMs - performance.now();
    if (left > 0) return { requeueAfterMs: left };
    try {
      await client.delete(GPUAGENT_RESOURCE, { name, namespace }, { uid, resourceVersion, signal });
      if (lease) await removeLease(lease, signal);
      logger.info({ agent: name }, 'deleted the GpuAgent of an agent that is long gone');
    } catch (error) {
      if (!isKubeError(error, 'conflict')) throw error;
    }
    return undefined;
  }

  function isHeld(name: string, lease: Lease | undefined): boolean {
    const holder = lease?.spec?.holderIdentity;
    return holder ? options.leaseTracker.stateOf(name, holder) !== 'lost' : false;
  }

  /**
   * Deletes only the version that had lapsed. A process of the same name may have taken over or replaced the Lease
   * meanwhile.
   */
  async function removeLease({ metadata }: Lease, signal: AbortSignal): Promise<void> {
    const { name = '', namespace, uid, resourceVersion } = metadata;
    await client.delete(LEASE_RESOURCE, { name, namespace }, { uid, resourceVersion, signal });
  }

  const queue = createWorkQueue({
    process,
    concurrency: 4,
    name: 'gpuagents',
    logger,
    registry: options.registry,
    maxDelayMs: 10_000,
  });

  return {
    touch: queue.add,
    async run(signal) {
      await queue.run(signal);
      turns.stop();
    },
  };
}
