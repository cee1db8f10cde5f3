import type { V1OwnerReference } from '@kubernetes/client-node';
import { CERTIFICATE_ANNOTATION } from '@semblance/common/agent-certificate';
import { describeError } from '@semblance/common/errors';
import { createLeaseKeeper, createReflector, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent, type GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import type { Registry } from 'prom-client';
import { createPublisher } from './publisher.ts';

/** Field manager of the agent's statements. */
export const FIELD_MANAGER = 'semblance-agent';

/** The part of the status that the agent owns. */
export type AgentStatement = Required<
  Pick<
    GpuAgentStatus,
    | 'incarnation'
    | 'address'
    | 'node'
    | 'version'
    | 'slots'
    | 'memoryMib'
    | 'cards'
    | 'draining'
    | 'engines'
    | 'live'
    | 'unavailable'
    | 'unavailableNames'
    | 'contentCheck'
    | 'mediaIsolation'
    | 'provenance'
  >
>;

export interface LeaseTimes {
  readonly durationSeconds: number;
  readonly renewEveryMs: number;
  /** Age of the last renewal at which all work is ended, before others may take it over, in ms. */
  readonly fenceAfterMs: number;
}

/** Time before the end of the Lease at which work is ended, in ms: a render ends or is killed within 1 s. */
const FENCE_BEFORE_MS = 1_500;

/**
 * Returns the times of a Lease of this length. It is renewed four times within it, so that one late renewal has no
 * effect.
 */
export function leaseTimesOf(durationSeconds: number): LeaseTimes {
  const durationMs = durationSeconds * 1_000;
  return { durationSeconds, renewEveryMs: durationMs / 4, fenceAfterMs: durationMs - FENCE_BEFORE_MS };
}

/** Another process holds the Lease of this name. */
class LeaseTakenError extends Error {
  override readonly name = 'LeaseTakenError';
  readonly code = 'lease_taken';
  readonly retryable = false;
}

export interface RegistrationOptions {
  readonly kube: KubeClient;
  /** Separate connection for renewals, with a short time limit, so that nothing else delays them. */
  readonly leaseKube: KubeClient;
  readonly namespace: string;
  readonly name: string;
  readonly incarnation: string;
  /** Pod that owns both resources, so that they are deleted together with it. */
  readonly pod?: { readonly name: string; readonly uid: string };
  readonly leaseTimes: LeaseTimes;
  /** Certificate of the gRPC service in PEM, which this process made for itself. */
  readonly certificate?: string | undefined;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly statement: () => AgentStatement;
  /** Called when the Lease may be lost: all work must end at once. */
  readonly onFenced: (reason: string) => void;
  readonly onRestored: () => void;
  /** Called with the last seen value of `spec.drain`. */
  readonly onDrain: (wanted: boolean) => void;
}

export interface Registration {
  /**
   * Takes the Lease and registers; retries until both succeed.
   * @throws the signal's reason
   */
  start(signal: AbortSignal): Promise<void>;
  /**
   * Renews the Lease and keeps the GpuAgent up to date until aborted. Then publishes the final state and releases
   * the Lease.
   * @throws LeaseTakenError when another process took the Lease
   */
  run(signal: AbortSignal): Promise<void>;
  /** Reports that the statement has changed. */
  changed(): void;
  /** Resolves when the current statement is published; rejects with the signal's reason. */
  settled(signal: AbortSignal): Promise<void>;
  readonly registered: boolean;
  /** Whether the Lease is held, by the clock of this process. */
  readonly holdsLease: boolean;
}

/** Announces the agent as a GpuAgent, and proves with a Lease of the same name that it lives. */
export function createRegistration(options: RegistrationOptions): Registration {
  const { kube, namespace, name, logger } = options;
  const times = options.leaseTimes;
  const metadata = { name, namespace };
  const ownerReferences: V1OwnerReference[] | undefined = options.pod && [
    { apiVersion: 'v1', kind: 'Pod', name: options.pod.name, uid: options.pod.uid },
  ];
  let acquired = false;
  const publisher = createPublisher({
    publish,
    onFault: (reason) => logger.warn({ reason }, `cannot register ${name}; trying again`),
  });

  const lease = createLeaseKeeper({
    client: options.leaseKube,
    namespace,
    name,
    holder: options.incarnation,
    durationSeconds: times.durationSeconds,
    renewEveryMs: times.renewEveryMs,
    fenceAfterMs: times.fenceAfterMs,
    ...(ownerReferences ? { ownerReferences } : {}),
    logger,
    onFenced: options.onFenced,
    onRestored: options.onRestored,
  });

  async function publish(signal: AbortSignal): Promise<void> {
    const status = options.statement();
    const { certificate } = options;
    // `spec.drain` is left out, because it belongs to people and to the operator.
    await kube.apply(
      GPUAGENT_RESOURCE,
      {
        metadata: {
          ...metadata,
          ...(ownerReferences ? { ownerReferences } : {}),
          ...(certificate ? { annotations: { [CERTIFICATE_ANNOTATION]: certificate } } : {}),
        },
        spec: {},
      } as GpuAgent,
      { fieldManager: FIELD_MANAGER, signal },
    );
    await kube.apply(GPUAGENT_RESOURCE, { metadata, status } as GpuAgent, {
      subresource: 'status',
      fieldManager: FIELD_MANAGER,
      signal,
    });
  }

  async function sayLast(): Promise<void> {
    if (lease.fenced) return;
    try {
      await publisher.now(AbortSignal.timeout(2_000));
    } catch (error) {
      logger.warn({ reason: describeError(error) }, `cannot state that ${name} is ending`);
    }
  }

  const seen = (object: GpuAgent) => {
    options.onDrain(object.spec?.drain === true);
    if (!publisher.current || sameStatement(object.status, options.statement())) return;
    // Somebody overwrote the status. If a person did it, it is corrected here. If a process took this name over,
    // the next renewal of the Lease fails and this process ends.
    setTimeout(() => !lease.fenced && publisher.changed(), times.renewEveryMs * 2).unref();
  };
  const reflector = createReflector<GpuAgent>({
    client: kube,
    resource: GPUAGENT_RESOURCE,
    namespace,
    fieldSelector: `metadata.name=${name}`,
    logger,
    registry: options.registry,
    handlers: {
      onAdd: seen,
      onUpdate: seen,
      onDelete() {
        logger.warn(`GpuAgent ${name} was deleted; registering again`);
        publisher.changed();
      },
    },
  });

  return {
    async start(signal) {
      await lease.acquire(signal);
      acquired = true;
      await publisher.once(signal);
      signal.throwIfAborted();
    },
    async run(signal) {
      const following = new AbortController();
      const tasks = Promise.all([reflector.run(following.signal), publisher.run(following.signal)]);
      const releasing = new AbortController();
      // The Lease is released last, because after that other agents may get the work.
      const leave = async () => {
        following.abort(signal.reason);
        await tasks;
        await sayLast();
        releasing.abort(signal.reason);
      };
      const onAbort = () => void leave();
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
      try {
        await lease.run(releasing.signal);
        if (!releasing.signal.aborted) {
          throw new LeaseTakenError(
            `the Lease ${namespace}/${name} was taken by another process; each agent needs a name of its own`,
          );
        }
      } finally {
        signal.removeEventListener('abort', onAbort);
        following.abort(new Error('the registration ended'));
        await tasks;
      }
    },
    changed: publisher.changed,
    settled: publisher.settled,
    get registered() {
      return publisher.published;
    },
    get holdsLease() {
      if (!acquired || lease.fenced) return false;
      // The clock is checked too, because after a standstill the timers may not have run yet.
      return performance.now() - lease.lastRenewal < times.fenceAfterMs;
    },
  };
}

function sameStatement(status: GpuAgentStatus | undefined, statement: AgentStatement): boolean {
  return (
    status?.incarnation === statement.incarnation &&
    status.address === statement.address &&
    status.slots === statement.slots &&
    status.draining === statement.draining
  );
}
