import {
  createReflector,
  gauge,
  type Handlers,
  type KubeClient,
  LEASE_RESOURCE,
  type Lease,
  type Reflector,
} from '@semblance/common/kube/index';
import { createLivedClock } from '@semblance/common/lived-clock';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Registry } from 'prom-client';
import { createDisruptionWatch, DENIED_RETRY_MS } from './agents/disruption-watch.ts';
import { createLeaseTracker } from './agents/lease-tracker.ts';
import { poolsTold } from './pools/denied.ts';
import { POD_INDEXERS } from './pools/observe.ts';
import { POD_RESOURCE, type Pod } from './pools/pod.ts';
import { createPriorityClasses } from './scheduling/priority-classes.ts';
import { JOB_INDEXERS, type Term, type TermOptions } from './term.ts';

export interface LocalCopiesOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Interval between retries of reads of Nodes, Pods or AgentPools that RBAC denies, in ms. */
  readonly deniedRetryMs: number | undefined;
  /** Returns the present term, which handles the changes; undefined while this operator does not lead. */
  readonly term: () => Term | undefined;
}

type Copied =
  | 'jobs'
  | 'sessions'
  | 'agents'
  | 'leases'
  | 'pools'
  | 'pods'
  | 'leaseTracker'
  | 'disruptions'
  | 'priorityOf';

/** Resources that every operator watches, whether or not it leads. */
export interface LocalCopies extends Pick<TermOptions, Copied> {
  /** Named checks for `/readyz`; each throws a reason. */
  readonly ready: Readonly<Record<string, () => unknown>>;
  /** Watches until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when a leader may act on the copies. */
  known(signal: AbortSignal): Promise<void>;
}

export function createLocalCopies(options: LocalCopiesOptions): LocalCopies {
  const { client, logger, registry, term } = options;
  const common = { client, namespace: options.namespace, logger, registry };
  /** Everything else works without these. */
  const optional = { retryMs: options.deniedRetryMs ?? DENIED_RETRY_MS };

  const jobs = createReflector({
    ...common,
    resource: RENDERJOB_RESOURCE,
    indexers: JOB_INDEXERS,
    handlers: routed<RenderJob>(() => term()?.jobHandlers),
  });
  const sessions = createReflector<LiveSession>({
    ...common,
    resource: LIVESESSION_RESOURCE,
    handlers: routed<LiveSession>(() => term()?.live.handlers),
  });
  const agents = createReflector({
    ...common,
    resource: GPUAGENT_RESOURCE,
    handlers: routed<GpuAgent>(() => term()?.agentHandlers),
  });
  const pools = createReflector({
    ...common,
    resource: AGENTPOOL_RESOURCE,
    optional,
    handlers: routed<AgentPool>(() => term()?.pools.poolHandlers),
  });
  // All Pods, because an agent need not belong to a pool. The pool controller and the disruption watch share this
  // copy.
  const pods = createReflector({
    ...common,
    resource: POD_RESOURCE,
    optional,
    indexers: POD_INDEXERS,
    handlers: routed<Pod>(() => term()?.pools.podHandlers),
  });
  const leases = createReflector<Lease>({ ...common, resource: LEASE_RESOURCE });
  const priorityClasses = createPriorityClasses({
    client,
    logger,
    registry,
    onChanged: () => term()?.reprioritise(),
  });
  // Every operator tracks Leases, so that a new leader already knows how long each agent has been silent.
  const lived = createLivedClock();
  const leaseTracker = createLeaseTracker({
    watch: leases,
    lived: lived.now,
    find: (name) => leases.get(name),
  });
  leases.addHandlers(leaseTracker.handlers);
  const disruptions = createDisruptionWatch({
    ...common,
    agents,
    pods,
    deniedRetryMs: optional.retryMs,
    onChanged: (agent) => term()?.touchAgent(agent),
  });
  observeCopies(registry, { jobs, sessions, pools, pods });

  return {
    jobs,
    sessions,
    agents,
    leases,
    pools,
    pods,
    leaseTracker,
    disruptions,
    priorityOf: priorityClasses.priorityOf,
    ready: {
      renderjobs: synced('RenderJobs', jobs),
      livesessions: synced('LiveSessions', sessions),
      gpuagents: synced('GpuAgents', agents),
      leases: synced('Leases', leases),
      ...disruptions.told,
      agentpools: poolsTold({ pools, pods }),
    },
    async run(signal) {
      const living = setInterval(lived.look, lived.everyMs).unref();
      // Nothing waits for pools and Pods. If RBAC denies them, no pool is managed and all else works.
      const watched = [jobs, sessions, agents, leases, disruptions, pools, pods, priorityClasses];
      await Promise.all(watched.map((each) => each.run(signal)));
      clearInterval(living);
    },
    async known(signal) {
      // Nodes and Pods are read before the campaign, so that no leader waits for them.
      await Promise.all([
        ...[jobs, sessions, agents, leases].map((each) => each.waitForSync(signal)),
        disruptions.known(signal),
      ]);
    },
  };
}

function observeCopies(
  registry: Registry,
  { jobs, sessions, pools, pods }: Pick<LocalCopies, 'jobs' | 'sessions' | 'pools' | 'pods'>,
): void {
  gauge(registry, {
    name: 'semblance_pools_watched',
    help: 'Whether RBAC lets the operator manage AgentPools: 1, or 0 where it may not read them or Pods.',
    collect() {
      this.set(pools.denied === undefined && pods.denied === undefined ? 1 : 0);
    },
  });
  gauge(registry, {
    name: 'semblance_jobs',
    help: 'RenderJobs that wait for an agent, and that are bound to one.',
    labelNames: ['state'] as const,
    collect() {
      for (const state of ['waiting', 'active']) this.set({ state }, jobs.byIndex('state', state).length);
    },
  });
  gauge(registry, {
    name: 'semblance_livesessions',
    help: 'LiveSessions, by phase.',
    labelNames: ['phase'] as const,
    collect() {
      const phases = sessions.list().map(({ status }) => status?.phase ?? 'Bound');
      for (const phase of ['Bound', 'Connected', 'Streaming', 'Ended'] as const)
        this.set({ phase }, phases.filter((each) => each === phase).length);
    },
  });
}

function synced(name: string, reflector: Pick<Reflector<never>, 'hasSynced' | 'healthySince'>) {
  return () => {
    if (!reflector.hasSynced) throw new Error(`the list of ${name} has not been read yet`);
    if (reflector.healthySince === undefined) throw new Error(`the watch of ${name} is interrupted`);
  };
}

/** Forwards to the handlers of the present term, if there is one. */
function routed<T>(current: () => Handlers<T> | undefined): Handlers<T> {
  return {
    onAdd: (object) => current()?.onAdd?.(object),
    onUpdate: (object, old) => current()?.onUpdate?.(object, old),
    onDelete: (object) => current()?.onDelete?.(object),
  };
}
