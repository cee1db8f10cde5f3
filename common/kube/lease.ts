import type { V1OwnerReference } from '@kubernetes/client-node';
import { jittered, pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { createFence } from './fence.ts';
import { LEASE_RESOURCE, type Lease, microTime } from './resources.ts';

/** Pause after a failed renewal, in ms. */
const RETRY_MS = 400;

export interface LeaseClaim {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Identity of the holder, unique to this process. */
  readonly holder: string;
  readonly durationSeconds: number;
  readonly labels?: Readonly<Record<string, string>>;
  /** Annotations that describe the holder to others. They are removed when it releases the Lease. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly V1OwnerReference[];
}

/**
 * Writes the claim over the Lease as it was read, or creates the Lease if there was none.
 * @throws KubeError `conflict` or `already_exists` when somebody else wrote meanwhile
 */
export function writeLease(
  claim: LeaseClaim,
  current: Lease | undefined,
  signal?: AbortSignal,
): Promise<Lease> {
  const { client, namespace, name, holder } = claim;
  const now = microTime();
  const same = current?.spec?.holderIdentity === holder;
  const transitions = current?.spec?.leaseTransitions ?? 0;
  const lease: Lease = {
    metadata: {
      name,
      namespace,
      resourceVersion: current?.metadata.resourceVersion,
      labels: { ...current?.metadata.labels, ...claim.labels },
      annotations: { ...current?.metadata.annotations, ...claim.annotations },
      ownerReferences: claim.ownerReferences ? [...claim.ownerReferences] : current?.metadata.ownerReferences,
    },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: claim.durationSeconds,
      acquireTime: same ? current?.spec?.acquireTime : now,
      renewTime: now,
      leaseTransitions: current && !same ? transitions + 1 : transitions,
    },
  };
  return current
    ? client.replace(LEASE_RESOURCE, lease, { signal })
    : client.create(LEASE_RESOURCE, lease, { signal });
}

/** Largest number of tries to release a Lease that others write meanwhile. */
const RELEASE_TRIES = 3;

/**
 * Releases the Lease, so that others need not wait until it expires. Nobody holds it then. If the Lease differs
 * from the last one written, reads it and tries again, because a renewal that was cut off may have taken effect.
 */
export async function releaseLease(claim: LeaseClaim, last: Lease): Promise<void> {
  const { client, namespace, name, holder } = claim;
  let held: Lease | undefined = last;
  for (let tries = 1; held?.spec?.holderIdentity === holder; tries++) {
    const spec = { ...held.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime() };
    const annotations = { ...held.metadata.annotations };
    for (const key of Object.keys(claim.annotations ?? {})) delete annotations[key];
    try {
      await client.replace(LEASE_RESOURCE, { metadata: { ...held.metadata, annotations }, spec });
      return;
    } catch (error) {
      if (!isKubeError(error, 'conflict', 'not_found') || tries >= RELEASE_TRIES) throw error;
      held = await client.find(LEASE_RESOURCE, { namespace, name });
    }
  }
}

export interface LeaseKeeperOptions extends LeaseClaim {
  readonly renewEveryMs: number;
  /**
   * Time in ms after the start of the last successful renewal at which others may count the holder as dead. Shorter
   * than the Lease duration by the time needed to stop all work.
   */
  readonly fenceAfterMs: number;
  readonly logger: Logger;
  /** Called when all work must stop now: by a timer that needs no API, or at once when another holder is found. */
  readonly onFenced: (reason: string) => void;
  /** Called when a renewal succeeds after `onFenced`. Never called after another took the Lease. */
  readonly onRestored?: () => void;
}

/** Keeps a Lease that tells others that this process is alive. */
export interface LeaseKeeper {
  /**
   * Takes the Lease, whoever holds it, and tries until it succeeds. @throws the signal's reason when it aborts
   * first
   */
  acquire(signal: AbortSignal): Promise<void>;
  /** Renews the Lease until the signal aborts, then releases it. Ends early when another takes it. */
  run(signal: AbortSignal): Promise<void>;
  readonly fenced: boolean;
  /** performance.now() at the start of the last successful renewal. */
  readonly lastRenewal: number;
}

export function createLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  const { client, namespace, name, holder, renewEveryMs, logger } = options;
  let held: Lease | undefined;
  let acquired = false;
  const fence = createFence({
    afterMs: options.fenceAfterMs,
    onFenced: (reason) => {
      logger.error({ lease: name, reason }, 'lost the Lease: ending all work');
      options.onFenced(reason);
    },
    onRestored: options.onRestored,
  });

  async function renew(signal: AbortSignal): Promise<void> {
    const began = performance.now();
    try {
      held = await writeLease(options, held, signal);
      fence.extend(began);
    } catch (error) {
      if (!isKubeError(error, 'conflict', 'not_found', 'already_exists')) throw error;
      // The Lease was deleted, or written by a person or by a newer process of the same name.
      const found = await client.find(LEASE_RESOURCE, { namespace, name }, { signal });
      const other = found?.spec?.holderIdentity;
      if (other && other !== holder) {
        acquired = true;
        fence.close(`the Lease ${name} is held by ${other}`);
        return;
      }
      held = await writeLease(options, found, signal);
      fence.extend(began);
    }
  }

  return {
    async acquire(signal) {
      for (;;) {
        signal.throwIfAborted();
        const began = performance.now();
        try {
          const found = await client.find(LEASE_RESOURCE, { namespace, name }, { signal });
          held = await writeLease(options, found, signal);
          fence.extend(began);
          return;
        } catch (error) {
          if (signal.aborted) throw signal.reason;
          logger.warn({ lease: name, reason: describeError(error) }, 'cannot take the Lease yet');
          await pause(jittered(RETRY_MS), signal);
        }
      }
    },
    async run(signal) {
      while (!signal.aborted && !acquired) {
        const due = fence.lastExtended + renewEveryMs - performance.now();
        if (due > 0) await pause(due, signal);
        if (signal.aborted) break;
        try {
          await renew(signal);
        } catch (error) {
          if (signal.aborted) break;
          logger.warn({ lease: name, reason: describeError(error) }, 'cannot renew the Lease');
          await pause(jittered(RETRY_MS), signal);
        }
      }
      fence.stop();
      if (held && !acquired) {
        await releaseLease(options, held).catch((error: unknown) =>
          logger.warn({ lease: name, reason: describeError(error) }, 'cannot release the Lease'),
        );
      }
    },
    get fenced() {
      return fence.fenced;
    },
    get lastRenewal() {
      return fence.lastExtended;
    },
  };
}
