import type { ListenAddress } from '@semblance/common/config';
import { type GrpcServer, startGrpcServer } from '@semblance/common/grpc/server';
import { expiryCheck, observeExpiry } from '@semblance/common/grpc/tls/expiry';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { createRegistry, startHealthServer } from '@semblance/common/health';
import {
  boundClient,
  createEventRecorder,
  createKubeClient,
  createLeaderElection,
  createReflector,
  gauge,
  type Handlers,
  LEASE_RESOURCE,
  type Lease,
} from '@semblance/common/kube/index';
import { createLivedClock } from '@semblance/common/lived-clock';
import type { Logger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { createDisruptionWatch, DENIED_RETRY_MS } from './agents/disruption-watch.ts';
import { createLeaseTracker } from './agents/lease-tracker.ts';
import { allocationService } from './livesession/allocation-service.ts';
import { poolsTold } from './pools/denied.ts';
import { POD_INDEXERS } from './pools/observe.ts';
import { POD_RESOURCE, type Pod } from './pools/pod.ts';
import type { Packing } from './scheduling/free-slots.ts';
import { createPriorityClasses } from './scheduling/priority-classes.ts';
import { createTerm, JOB_INDEXERS, type Term } from './term.ts';

/** Field manager of what the operator applies. */
export const FIELD_MANAGER = 'semblance-operator';
/** Name of the Lease that the operators compete for. */
export const ELECTION_LEASE = 'semblance-operator';
/** Annotation of that Lease: host:port of the leader's gRPC service. */
export const ADDRESS_ANNOTATION = 'semblance.dev/address';

export interface OperatorOptions {
  /** Default: the Pod's service account. */
  readonly kubeconfigPath?: string;
  readonly namespace: string;
  readonly objects: ObjectStore;
  /** Further checks for `/readyz`. */
  readonly ready?: Readonly<Record<string, () => void>>;
  /** Token that the operator sends to agents. */
  readonly internalToken?: string | undefined;
  /** Undefined: gRPC is not encrypted. */
  readonly tls?: Tls | undefined;
  readonly logger: Logger;
  /** Name unique to this process. */
  readonly identity: string;
  readonly healthListen: ListenAddress;
  /** Address of the allocation service. Default: a free port of the loopback interface. */
  readonly listen?: ListenAddress;
  /** host:port at which others reach that service. Default: where it listens. */
  readonly advertise?: string | undefined;
  readonly concurrency?: number;
  readonly agentRetentionMs?: number;
  /** Interval between retries of reads of Nodes, Pods or AgentPools that RBAC denies, in ms. */
  readonly deniedRetryMs?: number;
  /** First pause after Pods of a pool could not be started, in ms; it doubles each time. Default 10,000. */
  readonly poolFaultPauseMs?: number;
  /** Longest wait of a live session when all slots are taken, in ms. Default 2,000. */
  readonly waitForSlotMs?: number;
  /** Longest wait for an agent's answer to a claim, in ms. Default 1,500. */
  readonly claimTimeoutMs?: number;
  /** Weights of accounts in the sharing of slots; 1 for those not named. */
  readonly weights?: ReadonlyMap<string, number>;
  /** Default `spread`. */
  readonly packing?: Packing;
  readonly election?: {
    readonly leaseDurationMs?: number;
    readonly renewDeadlineMs?: number;
    readonly retryPeriodMs?: number;
  };
  readonly registry?: Registry;
}

export interface Operator {
  readonly healthPort: number;
  /** host:port of its gRPC service. */
  readonly address: string;
  readonly leading: boolean;
  /** Hands over the leadership and ends. Work on agents goes on. */
  close(): Promise<void>;
  /** Rejects when the operator cannot go on. */
  readonly failed: Promise<never>;
}

/** Starts the operator: local copies, campaign for leadership, health and metrics pages. */
export async function startOperator(options: OperatorOptions): Promise<Operator> {
  const { namespace, logger, identity } = options;
  const ending = new AbortController();
  const registry = options.registry ?? createRegistry('operator');
  observeExpiry(registry, options.tls);
  const { kubeconfigPath } = options;
  const client = createKubeClient({ kubeconfigPath, fieldManager: FIELD_MANAGER, logger });
  // The election has its own connections, so that no burst of writes delays the renewals.
  const electionClient = createKubeClient({ kubeconfigPath, fieldManager: FIELD_MANAGER, maxInFlight: 4 });
  const allocationClient = createKubeClient({ kubeconfigPath, fieldManager: FIELD_MANAGER, logger });
  const common = { client, namespace, logger, registry };
  /** Everything else works without these. */
  const optional = { retryMs: options.deniedRetryMs ?? DENIED_RETRY_MS };

  let term: Term | undefined;
  const jobs = createReflector({
    ...common,
    resource: RENDERJOB_RESOURCE,
    indexers: JOB_INDEXERS,
    handlers: routed<RenderJob>(() => term?.jobHandlers),
  });
  const sessions = createReflector<LiveSession>({
    ...common,
    resource: LIVESESSION_RESOURCE,
    handlers: routed<LiveSession>(() => term?.live.handlers),
  });
  const agents = createReflector({
    ...common,
    resource: GPUAGENT_RESOURCE,
    handlers: routed<GpuAgent>(() => term?.agentHandlers),
  });
  const pools = createReflector({
    ...common,
    resource: AGENTPOOL_RESOURCE,
    optional,
    handlers: routed<AgentPool>(() => term?.pools.poolHandlers),
  });
  // All Pods, because an agent need not belong to a pool. The pool controller and the disruption watch share this
  // copy.
  const pods = createReflector({
    ...common,
    resource: POD_RESOURCE,
    optional,
    indexers: POD_INDEXERS,
    handlers: routed<Pod>(() => term?.pools.podHandlers),
  });
  const leases = createReflector<Lease>({ ...common, resource: LEASE_RESOURCE });
  const priorityClasses = createPriorityClasses({
    client,
    logger,
    registry,
    onChanged: () => term?.reprioritise(),
  });
  // Every operator tracks Leases, so that a new leader already knows how long each agent has been silent.
  const lived = createLivedClock();
  const living = setInterval(lived.look, lived.everyMs).unref();
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
    onChanged: (agent) => term?.touchAgent(agent),
  });

  const recorder = createEventRecorder({
    client,
    component: 'semblance.dev/operator',
    instance: identity,
    logger,
  });
  const listen = options.listen ?? { host: '127.0.0.1', port: 0 };
  const grpc: GrpcServer = await startGrpcServer({
    listen,
    services: [allocationService({ live: () => term?.live, internalToken: options.internalToken, logger })],
    tls: options.tls,
  });
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host;
  const address = options.advertise ?? `${host}:${grpc.port}`;
  const election = createLeaderElection({
    ...common,
    client: electionClient,
    name: ELECTION_LEASE,
    identity,
    annotations: { [ADDRESS_ANNOTATION]: address },
    ...options.election,
  });
  const lead = async (leadership: AbortSignal) => {
    term = createTerm({
      // Requests of this term end with it, because others may lead from then on.
      client: boundClient(client, leadership),
      allocationClient: boundClient(allocationClient, leadership),
      namespace,
      identity,
      jobs,
      sessions,
      agents,
      leases,
      pools,
      pods,
      leaseTracker,
      disruptions,
      recorder,
      registry,
      logger,
      objects: options.objects,
      internalToken: options.internalToken,
      tls: options.tls,
      concurrency: options.concurrency ?? 64,
      agentRetentionMs: options.agentRetentionMs ?? 600_000,
      poolFaultPauseMs: options.poolFaultPauseMs,
      waitForSlotMs: options.waitForSlotMs,
      claimTimeoutMs: options.claimTimeoutMs,
      priorityOf: priorityClasses.priorityOf,
      weights: options.weights,
      packing: options.packing,
    });
    try {
      await term.run(leadership);
    } catch (error) {
      if (!leadership.aborted) throw error;
    } finally {
      term = undefined;
    }
  };

  const synced =
    (name: string, reflector: { hasSynced: boolean; healthySince: number | undefined }) => () => {
      if (!reflector.hasSynced) throw new Error(`the list of ${name} has not been read yet`);
      if (reflector.healthySince === undefined) throw new Error(`the watch of ${name} is interrupted`);
    };
  const health = await startHealthServer({
    listen: options.healthListen,
    service: 'operator',
    registry,
    ready: {
      renderjobs: synced('RenderJobs', jobs),
      livesessions: synced('LiveSessions', sessions),
      gpuagents: synced('GpuAgents', agents),
      leases: synced('Leases', leases),
      ...disruptions.told,
      agentpools: poolsTold({ pools, pods }),
      leader() {
        if (!election.leader) throw new Error('no operator leads');
      },
      ...expiryCheck(options.tls),
      ...options.ready,
      ending() {
        if (ending.signal.aborted) throw new Error('the operator is ending');
      },
    },
  });

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

  const { signal } = ending;
  const watching = [
    jobs.run(signal),
    sessions.run(signal),
    agents.run(signal),
    leases.run(signal),
    disruptions.run(signal),
    // Nothing waits for these two. If RBAC denies them, no pool is managed and all else works.
    pools.run(signal),
    pods.run(signal),
    priorityClasses.run(signal),
    recorder.run(signal),
  ];
  // Nodes and Pods are read before the campaign, so that no leader waits for them.
  const known = [
    ...[jobs, sessions, agents, leases].map((each) => each.waitForSync(signal)),
    disruptions.known(signal),
  ];
  const campaigning = Promise.all(known)
    .then(() => election.run(signal, lead))
    .catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  const failed = campaigning.then(() => new Promise<never>(() => {}));
  failed.catch(() => {});

  return {
    healthPort: health.port,
    address,
    get leading() {
      return election.leading;
    },
    failed,
    async close() {
      ending.abort(new Error('the operator ends'));
      clearInterval(living);
      await campaigning.catch(() => {});
      await Promise.all(watching);
      await Promise.all([health.close(), grpc.close()]);
      await Promise.all([client, electionClient, allocationClient].map((each) => each.close()));
    },
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
