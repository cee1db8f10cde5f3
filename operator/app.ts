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
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import { allocationService } from './livesession/allocation-service.ts';
import { createLocalCopies } from './local-copies.ts';
import { createTexts } from './renderjob/texts.ts';
import type { Packing } from './scheduling/free-slots.ts';
import { createTerm, type Term } from './term.ts';

/** Field manager of what the operator applies. */
export const FIELD_MANAGER = 'semblance-operator';
/** Name of the Lease that the operators compete for. */
export const ELECTION_LEASE = 'semblance-operator';
/** Annotation of that Lease: host:port of the leader's gRPC service. */
export const ADDRESS_ANNOTATION = 'semblance.dev/address';
/** Annotation of that Lease: `true`, the leader asks the control plane for texts that RenderJobs name by digest. */
const TEXTS_ANNOTATION = 'semblance.dev/reads-texts';

export interface OperatorOptions {
  /** Default: the Pod's service account. */
  readonly kubeconfigPath?: string;
  readonly namespace: string;
  readonly objects: ObjectStore;
  /** Further checks for `/readyz`. */
  readonly ready?: Readonly<Record<string, () => void>>;
  /** host:port of the control plane. Undefined: texts of RenderJobs are in clear only. */
  readonly controlAddress?: string | undefined;
  /** Token that the operator sends to agents and to the control plane. */
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
  let term: Term | undefined;
  const copies = createLocalCopies({
    client,
    namespace,
    logger,
    registry,
    deniedRetryMs: options.deniedRetryMs,
    term: () => term,
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
  const texts = createTexts({
    address: options.controlAddress,
    token: options.internalToken,
    tls: options.tls,
  });
  const election = createLeaderElection({
    namespace,
    logger,
    registry,
    client: electionClient,
    name: ELECTION_LEASE,
    identity,
    annotations: {
      [ADDRESS_ANNOTATION]: address,
      ...(options.controlAddress !== undefined && { [TEXTS_ANNOTATION]: 'true' }),
    },
    ...options.election,
  });
  const lead = async (leadership: AbortSignal) => {
    term = createTerm({
      // Requests of this term end with it, because others may lead from then on.
      client: boundClient(client, leadership),
      allocationClient: boundClient(allocationClient, leadership),
      namespace,
      identity,
      ...copies,
      recorder,
      registry,
      logger,
      objects: options.objects,
      texts,
      internalToken: options.internalToken,
      tls: options.tls,
      concurrency: options.concurrency ?? 64,
      agentRetentionMs: options.agentRetentionMs ?? 600_000,
      poolFaultPauseMs: options.poolFaultPauseMs,
      waitForSlotMs: options.waitForSlotMs,
      claimTimeoutMs: options.claimTimeoutMs,
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

  const health = await startHealthServer({
    listen: options.healthListen,
    service: 'operator',
    registry,
    ready: {
      ...copies.ready,
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

  const { signal } = ending;
  const watching = Promise.all([copies.run(signal), recorder.run(signal)]);
  const campaigning = copies
    .known(signal)
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
      await campaigning.catch(() => {});
      await watching;
      await Promise.all([health.close(), grpc.close()]);
      texts.close();
      await Promise.all([client, electionClient, allocationClient].map((each) => each.close()));
    },
  };
}
