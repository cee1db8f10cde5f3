import type { Tls } from '@semblance/common/grpc/tls/tls';
import {
  addressFault,
  type EventRecorder,
  type Handlers,
  type KubeClient,
  type Lease,
  type Reflector,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { LiveSession } from '@semblance/crds/gen/livesessions';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { createAgentController } from './agents/controller.ts';
import type { DisruptionWatch } from './agents/disruption-watch.ts';
import { createFleet } from './agents/fleet.ts';
import type { LeaseTracker } from './agents/lease-tracker.ts';
import { createLiveTerm, type LiveTerm } from './livesession/live-term.ts';
import { createOperatorMetrics } from './metrics.ts';
import { createPoolController } from './pools/controller.ts';
import type { Pod } from './pools/pod.ts';
import type { PoolController } from './pools/pool-controller.ts';
import { isTerminal } from './renderjob/attempt-state.ts';
import { createJobController } from './renderjob/controller.ts';
import { createFactStore } from './renderjob/facts.ts';
import { createJobHandlers } from './renderjob/handlers.ts';
import { createOrphans } from './renderjob/orphans.ts';
import { isActive, isWaiting, queuedAt, retryAt } from './renderjob/status.ts';
import type { Texts } from './renderjob/texts.ts';
import { createWaitingLane } from './renderjob/waiting-lane.ts';
import { createJobWriter } from './renderjob/writer.ts';
import type { Packing } from './scheduling/free-slots.ts';
import type { PriorityOf } from './scheduling/priority-classes.ts';
import { createScheduler, type Scheduler } from './scheduling/scheduler.ts';

/** Wait after which a job counts as passed over, in ms. A shorter wait may be for the next pass over the queue. */
const PASSED_OVER_MS = 10_000;

/** Indexes of the reflector of RenderJobs. */
export const JOB_INDEXERS = {
  state: (job: RenderJob) => (isWaiting(job) ? ['waiting'] : isActive(job) ? ['active'] : []),
  agent: (job: RenderJob) => (isActive(job) && job.status?.agent ? [job.status.agent] : []),
};

export interface TermOptions {
  readonly client: KubeClient;
  /** Client for the one write of an allocation. */
  readonly allocationClient: KubeClient;
  readonly namespace: string;
  readonly identity: string;
  readonly jobs: Reflector<RenderJob>;
  readonly sessions: Reflector<LiveSession>;
  readonly agents: Reflector<GpuAgent>;
  readonly leases: Reflector<Lease>;
  readonly pools: Reflector<AgentPool>;
  /** All Pods of the namespace, whether in a pool or not. */
  readonly pods: Reflector<Pod>;
  readonly leaseTracker: LeaseTracker;
  readonly disruptions: DisruptionWatch;
  readonly objects: ObjectStore;
  readonly texts: Texts;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly recorder: EventRecorder;
  readonly registry: Registry;
  readonly logger: Logger;
  readonly concurrency: number;
  readonly agentRetentionMs: number;
  /** First pause after the Pods of a pool could not be started, in ms. */
  readonly poolFaultPauseMs?: number | undefined;
  /** Time limits of live sessions, in ms: for a slot when all are taken, and for an agent's answer to a claim. */
  readonly waitForSlotMs?: number | undefined;
  readonly claimTimeoutMs?: number | undefined;
  readonly priorityOf: PriorityOf;
  readonly weights?: ReadonlyMap<string, number> | undefined;
  readonly packing?: Packing | undefined;
}

/** One term: everything that acts, created anew so that nothing remembered from an earlier term misleads it. */
export interface Term {
  readonly jobHandlers: Handlers<RenderJob>;
  readonly agentHandlers: Handlers<GpuAgent>;
  readonly live: LiveTerm;
  /** Must be called when the Pod or the node of the agent has changed. */
  touchAgent(agent: string): void;
  readonly pools: PoolController;
  /** Must be called when PriorityClasses have changed. */
  reprioritise(): void;
  /** Leads until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

export function createTerm(options: TermOptions): Term {
  const { jobs, agents, logger, registry } = options;
  const facts = createFactStore();
  const metrics = createOperatorMetrics(registry);
  const writer = createJobWriter(options);

  const fleet = createFleet({
    agents,
    leases: options.leaseTracker,
    disruptions: options.disruptions,
    // Without the right to read Pods nobody can tell.
    foreignAddress: (agent) =>
      options.pods.denied === undefined
        ? addressFault(agent, options.pods.get(agent.metadata.name ?? '', options.namespace))
        : undefined,
    internalToken: options.internalToken,
    tls: options.tls,
    logger,
    events: {
      onChanged(agent) {
        scheduler.agentChanged(agent);
        scheduler.touch();
        agentController.touch(agent);
        touchJobsOf(agent);
        live.touchAgent(agent);
        pools.touchAgent(agent);
      },
      onSnapshot(agent, incarnation, attempts) {
        for (const uid of facts.snapshot(agent, incarnation, attempts)) controller.touch(uid);
        for (const { ref } of attempts) {
          if (ref) orphans.consider(agent, incarnation, ref.jobUid, ref.attempt);
        }
        scheduler.agentChanged(agent);
        touchJobsOf(agent);
      },
      onReport(agent, incarnation, report) {
        facts.report(agent, incarnation, report);
        pools.worked(agent);
        scheduler.agentChanged(agent);
        if (!report.ref) return;
        const { jobUid, attempt } = report.ref;
        orphans.consider(agent, incarnation, jobUid, attempt);
        if (isTerminal(report.state)) {
          controller.ended(jobUid);
          scheduler.touch();
        } else controller.touch(jobUid);
      },
    },
  });
  const scheduler = createScheduler({
    jobs,
    fleet,
    facts,
    priorityOf: options.priorityOf,
    weights: options.weights,
    packing: options.packing,
    onPlaced: (uid) => controller.touch(uid),
    onWaiting: (waiting) => lane.update(waiting),
    pools: (capability, others) => pools.wordOf(capability, others),
  });
  const lane = createWaitingLane({ find: jobs.byUid, onDue: (uid) => controller.touch(uid) });
  const controller = createJobController({ ...options, writer, fleet, facts, scheduler, lane, metrics });
  const onEnded = (agent: string) => {
    scheduler.agentChanged(agent);
    scheduler.touch();
  };
  const orphans = createOrphans({ jobs, fleet, facts, logger, registry, onEnded });
  const pools: PoolController = createPoolController({
    ...options,
    fleet,
    scheduler,
    // Created later, because each depends on the other.
    live: { usedOn: (view) => live.usedOn(view) },
    waitingJobs: () => waitingJobs(jobs, scheduler),
    onOutlook: scheduler.touch,
    faultPauseMs: options.poolFaultPauseMs,
  });
  const live: LiveTerm = createLiveTerm({
    ...options,
    fleet,
    pools,
    onUsed(agent) {
      agentController.touch(agent);
      pools.worked(agent);
    },
  });
  const agentController = createAgentController({
    ...options,
    fleet,
    scheduler,
    live,
    retentionMs: options.agentRetentionMs,
    hasWork: (agent) => jobs.byIndex('agent', agent).length > 0,
  });

  const jobHandlers = createJobHandlers({ facts, orphans, scheduler, controller, agentController, metrics });

  function touchJobsOf(agent: string): void {
    for (const { metadata } of jobs.byIndex('agent', agent)) controller.touch(metadata.uid ?? '');
  }

  function agentSeen({ metadata: { name = '' } }: GpuAgent): void {
    fleet.touch(name);
    // The controller restores the operator's fields if others have changed them.
    agentController.touch(name);
  }

  return {
    jobHandlers,
    agentHandlers: { onAdd: agentSeen, onUpdate: agentSeen, onDelete: agentSeen },
    live,
    touchAgent: fleet.touch,
    pools,
    reprioritise: () => scheduler.reprioritise(),
    async run(signal) {
      await readAnew(options, signal);
      const ended = Promise.all([
        fleet.run(signal),
        scheduler.run(signal),
        controller.run(signal),
        orphans.run(signal),
        agentController.run(signal),
        live.run(signal),
        pools.run(signal),
      ]);
      for (const job of jobs.list()) jobHandlers.onAdd(job);
      for (const { metadata } of agents.list()) agentController.touch(metadata.name ?? '');
      await ended;
      lane.stop();
    },
  };
}

/** Returns the RenderJobs that could begin if there were a slot, by capability. */
function waitingJobs(jobs: Reflector<RenderJob>, scheduler: Pick<Scheduler, 'placementOf'>) {
  const now = Date.now();
  const found = { jobs: new Map<string, number>(), passedOver: new Map<string, number>() };
  const count = (of: Map<string, number>, capability: string) =>
    of.set(capability, (of.get(capability) ?? 0) + 1);
  for (const job of jobs.byIndex('state', 'waiting')) {
    const { capability } = job.spec;
    if (scheduler.placementOf(job.metadata.uid ?? '') || retryAt(job) > now) continue;
    count(found.jobs, capability);
    if (now - Math.max(queuedAt(job), retryAt(job)) > PASSED_OVER_MS) count(found.passedOver, capability);
  }
  return found;
}

/**
 * Lists everything anew. An agent must be known at least as recently as the bindings to it. Otherwise its successor
 * would be taken for its predecessor.
 */
async function readAnew(
  { jobs, sessions, leases, agents }: Pick<TermOptions, 'jobs' | 'sessions' | 'leases' | 'agents'>,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([jobs.resync(signal), sessions.resync(signal)]);
  await leases.resync(signal);
  await agents.resync(signal);
}
