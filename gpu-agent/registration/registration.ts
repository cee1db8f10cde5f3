import type { V1OwnerReference } from '@kubernetes/client-node';
import { backoffMs, jittered } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import { createLeaseKeeper, createReflector, type KubeClient } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent, type GpuAgentStatus } from '@semblance/crds/gen/gpuagents';
import type { Registry } from 'prom-client';

/** Field manager of what the agent says of itself. */
export const FIELD_MANAGER = 'semblance-agent';

/** Holds what the agent says of itself: the part of the status that it owns. */
export type AgentStatement = Required<
  Pick<
    GpuAgentStatus,
    | 'incarnation'
    | 'address'
    | 'node'
    | 'version'
    | 'slots'
    | 'memoryMib'
    | 'draining'
    | 'engines'
    | 'live'
    | 'unavailable'
    | 'unavailableNames'
    | 'contentCheck'
    | 'provenance'
  >
>;

export interface LeaseTimes {
  readonly durationSeconds: number;
  readonly renewEveryMs: number;
  /** Age of the last renewal at which all work is given up, to be ended before others may take it over. */
  readonly fenceAfterMs: number;
}

/** A render ends within 1 s of being told to, or is killed: this long before the Lease lapses is early enough. */
const FENCE_BEFORE_MS = 1_500;

/** Times of a Lease that lasts so many seconds: renewed four times in them, so that one late renewal costs nothing. */
export function leaseTimesOf(durationSeconds: number): LeaseTimes {
  const durationMs = durationSeconds * 1_000;
  return { durationSeconds, renewEveryMs: durationMs / 4, fenceAfterMs: durationMs - FENCE_BEFORE_MS };
}

/** Another process holds the Lease of this name. */
export class LeaseTakenError extends Error {
  override readonly name = 'LeaseTakenError';
  readonly code = 'lease_taken';
  readonly retryable = false;
}

export interface RegistrationOptions {
  readonly kube: KubeClient;
  /** A connection for renewals alone, with a short time limit, so that nothing else delays them. */
  readonly leaseKube: KubeClient;
  readonly namespace: string;
  readonly name: string;
  readonly incarnation: string;
  /** Pod that owns both resources, so that they go with it. */
  readonly pod?: { readonly name: string; readonly uid: string };
  readonly leaseTimes: LeaseTimes;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly statement: () => AgentStatement;
  /** The Lease is no longer surely held: all work has to end now. */
  readonly onFenced: (reason: string) => void;
  readonly onRestored: () => void;
  /** `spec.drain` as last seen. */
  readonly onDrain: (wanted: boolean) => void;
}

export interface Registration {
  /** Takes the Lease and registers, trying until it succeeds. @throws the signal's reason */
  start(signal: AbortSignal): Promise<void>;
  /**
   * Renews the Lease and keeps the GpuAgent true until aborted, then says once more how things stand and releases the
   * Lease. @throws LeaseTakenError when another process took the Lease
   */
  run(signal: AbortSignal): Promise<void>;
  /** The statement is another now. */
  changed(): void;
  /** Resolves when what is stated has been published; rejects with the signal's reason. */
  settled(signal: AbortSignal): Promise<void>;
  readonly registered: boolean;
  /** The Lease is held, by the clock of this process. */
  readonly live: boolean;
}

/** Announces the agent as a GpuAgent and proves that it lives by a Lease of the same name. */
export function createRegistration(options: RegistrationOptions): Registration {
  const { kube, namespace, name, logger } = options;
  const times = options.leaseTimes;
  const metadata = { name, namespace };
  const ownerReferences: V1OwnerReference[] | undefined = options.pod && [
    { apiVersion: 'v1', kind: 'Pod', name: options.pod.name, uid: options.pod.uid },
  ];
  let registered = false;
  let acquired = false;
  /** Counts changes; the loop below publishes until it has published the last. */
  let wanted = 1;
  let published = 0;
  let wake = () => {};
  let settling: (() => void)[] = [];

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
    const saying = wanted;
    const status = options.statement();
    // `spec.drain` is left out, so that it stays the word of people and of the operator.
    await kube.apply(
      GPUAGENT_RESOURCE,
      {
        metadata: { ...metadata, ...(ownerReferences ? { ownerReferences } : {}) },
        spec: {},
      } as GpuAgent,
      { fieldManager: FIELD_MANAGER, signal },
    );
    await kube.apply(GPUAGENT_RESOURCE, { metadata, status } as GpuAgent, {
      subresource: 'status',
      fieldManager: FIELD_MANAGER,
      signal,
    });
    published = saying;
    registered = true;
    if (published === wanted) for (const settle of settling.splice(0)) settle();
  }

  function changed(): void {
    wanted++;
    wake();
  }

  /** Publishes what is new; faults of the API are tried again with growing pauses. */
  async function publishAll(signal: AbortSignal, once: boolean): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      if (published === wanted) {
        if (once) return;
        await sleep(signal);
        continue;
      }
      try {
        await publish(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        failures++;
        logger.warn({ reason: describeError(error) }, `cannot register ${name}; trying again`);
        await sleep(signal, jittered(backoffMs(failures, 200, 5_000)));
      }
    }
  }

  /** Until woken, aborted, or `ms` have passed. */
  function sleep(signal: AbortSignal, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(end, ms);
      // A change during a pause after a fault does not shorten the pause.
      wake = ms === undefined ? end : () => {};
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
    });
  }

  async function sayLast(): Promise<void> {
    if (lease.fenced) return;
    try {
      await publish(AbortSignal.timeout(2_000));
    } catch (error) {
      logger.warn({ reason: describeError(error) }, `cannot state that ${name} is ending`);
    }
  }

  const seen = (object: GpuAgent) => {
    options.onDrain(object.spec?.drain === true);
    if (published !== wanted || sameStatement(object.status, options.statement())) return;
    // Written over: by a person, and then it is put right; or by a process that took this name over, and then the Lease
    // says so at its next renewal and this process ends.
    setTimeout(() => !lease.fenced && changed(), times.renewEveryMs * 2).unref();
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
        changed();
      },
    },
  });

  return {
    async start(signal) {
      await lease.acquire(signal);
      acquired = true;
      await publishAll(signal, true);
      signal.throwIfAborted();
    },
    async run(signal) {
      const following = new AbortController();
      const tasks = Promise.all([reflector.run(following.signal), publishAll(following.signal, false)]);
      const releasing = new AbortController();
      // The Lease is given up last: from then on the work may be found elsewhere.
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
    changed,
    settled: (signal) =>
      new Promise((resolve, reject) => {
        if (published === wanted) return resolve();
        const onAbort = () => {
          settling = settling.filter((each) => each !== settle);
          reject(signal.reason);
        };
        const settle = () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        };
        if (signal.aborted) return onAbort();
        signal.addEventListener('abort', onAbort, { once: true });
        settling.push(settle);
      }),
    get registered() {
      return registered;
    },
    get live() {
      if (!acquired || lease.fenced) return false;
      // By the clock, too: after a pause of the process its timers may not have run yet.
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
