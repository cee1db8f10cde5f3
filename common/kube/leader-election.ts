import { Registry } from 'prom-client';
import { jittered, pause } from '../async/backoff.ts';
import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { createFence } from './fence.ts';
import { type LeaseClaim, releaseLease, writeLease } from './lease.ts';
import { gauge } from './metrics.ts';
import { LEASE_RESOURCE, type Lease } from './resources.ts';

export interface LeaderElectionOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the Lease that processes compete for. */
  readonly name: string;
  /** Identity of this process, unique to it. */
  readonly identity: string;
  /** Annotations on the Lease while this process leads, for example the address at which it can be reached. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly logger: Logger;
  readonly registry?: Registry;
  /** How long other processes wait after the last renewal they saw, in ms. Default 15,000. */
  readonly leaseDurationMs?: number;
  /** Time after its last renewal at which the leader stops leading, in ms. Default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Interval of renewals by the leader, in ms. Other processes look four times as often. Default 2,000. */
  readonly retryPeriodMs?: number;
  /** Time that `lead` has to end before the Lease is released regardless, in ms. Default 1,000. */
  readonly handOverMs?: number;
}

export interface LeaderElection {
  /**
   * Campaigns until the signal aborts. While this process leads, runs `lead`, whose signal aborts when the process
   * must stop acting, well before another may begin. The Lease is released when `lead` has settled, or at the
   * latest `handOverMs` after its signal aborted. From then on another process may lead, so `lead` must write
   * nothing after its signal aborts (see boundClient).
   * @throws what `lead` throws
   */
  run(signal: AbortSignal, lead: (leadership: AbortSignal) => Promise<void>): Promise<void>;
  readonly leading: boolean;
  /** Holder of the Lease as last seen. Undefined: nobody, or not seen yet. */
  readonly leader: string | undefined;
}

/**
 * Creates a leader election on a Lease. It measures time with monotonic clocks only, so clocks that differ between
 * nodes do no harm.
 */
export function createLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { client, namespace, name, identity, logger } = options;
  const { leaseDurationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2_000 } = options;
  const { handOverMs = 1_000 } = options;
  if (renewDeadlineMs >= leaseDurationMs || retryPeriodMs * 2 > renewDeadlineMs) {
    throw new RangeError('the periods must hold: 2 × retry ≤ renew deadline < lease duration');
  }
  const durationSeconds = Math.ceil(leaseDurationMs / 1000);
  const { annotations } = options;
  const claim: LeaseClaim = { client, namespace, name, holder: identity, durationSeconds, annotations };
  const leadingGauge = gauge(options.registry ?? new Registry(), {
    name: 'semblance_leader',
    help: '1 while this process leads.',
  });

  let leadership: AbortSignal | undefined;
  let leader: string | undefined;
  let seen: { readonly version: string | undefined; readonly at: number } | undefined;

  /**
   * Returns the time in ms until the Lease may be taken: when it is free, ours, or was not renewed for its duration
   * while this process looked.
   */
  function heldFor(lease: Lease | undefined): number {
    leader = lease?.spec?.holderIdentity || undefined;
    if (!lease || !leader || leader === identity) return 0;
    const version = lease.metadata.resourceVersion;
    if (seen?.version !== version) seen = { version, at: performance.now() };
    const duration = Math.max(leaseDurationMs, (lease.spec?.leaseDurationSeconds ?? 0) * 1000);
    return Math.max(0, (seen?.at ?? 0) + duration - performance.now());
  }

  async function campaign(signal: AbortSignal): Promise<{ lease: Lease; began: number } | undefined> {
    while (!signal.aborted) {
      const began = performance.now();
      let wait = jittered(retryPeriodMs / 4);
      try {
        const found = await client.find(LEASE_RESOURCE, { namespace, name }, { signal });
        const held = heldFor(found);
        wait = Math.min(wait, held);
        if (held === 0) return { lease: await writeLease(claim, found, signal), began };
      } catch (error) {
        if (!signal.aborted && !isKubeError(error, 'conflict', 'already_exists')) {
          logger.warn({ lease: name }, `cannot become leader of lease ${name}: ${describeError(error)}`);
        }
      }
      await pause(wait, signal);
    }
    return undefined;
  }

  /** Renews until leadership ends. @returns the Lease as last written, or undefined if another process holds it */
  async function hold(first: Lease, extend: (began: number) => void, term: AbortSignal) {
    let lease = first;
    while (!term.aborted) {
      await pause(retryPeriodMs, term);
      if (term.aborted) break;
      const began = performance.now();
      try {
        lease = await writeLease(claim, lease, term);
        extend(began);
      } catch (error) {
        if (term.aborted) break;
        logger.warn({ lease: name, reason: describeError(error) }, 'cannot renew the leadership');
        const found = await client
          .find(LEASE_RESOURCE, { namespace, name }, { signal: term })
          .catch(() => lease);
        if (found?.spec?.holderIdentity !== identity) return undefined;
        lease = found;
        await pause(jittered(retryPeriodMs / 4), term);
      }
    }
    return lease;
  }

  async function serve(
    won: { lease: Lease; began: number },
    signal: AbortSignal,
    lead: (leadership: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const over = new AbortController();
    const term = AbortSignal.any([signal, over.signal]);
    leadership = term;
    const fence = createFence({
      afterMs: renewDeadlineMs,
      onFenced: (reason) => over.abort(new Error(`no longer the leader: ${reason}`)),
    });
    fence.extend(won.began);
    leader = identity;
    leadingGauge.set(1);
    logger.info({ lease: name, identity }, 'leading');
    const holding = hold(won.lease, fence.extend, term).then((lease) => {
      over.abort(new Error('no longer the leader'));
      return lease;
    });
    const led = term.aborted ? Promise.resolve() : lead(term);
    // It may reject before anything awaits it.
    led.catch(() => {});
    try {
      const ended = await within(led, term, handOverMs);
      if (!ended)
        logger.warn({ lease: name, afterMs: handOverMs }, 'ending the term while some work has not ended');
    } finally {
      over.abort(new Error('the leader ended'));
      leadingGauge.set(0);
      const lease = await holding;
      fence.stop();
      logger.info({ lease: name, identity }, 'no longer leading');
      if (lease) {
        await releaseLease(claim, lease).catch((error: unknown) =>
          logger.warn({ lease: name, reason: describeError(error) }, 'cannot release the leadership'),
        );
      }
    }
    await led;
  }

  return {
    async run(signal, lead) {
      while (!signal.aborted) {
        const won = await campaign(signal);
        if (won) await serve(won, signal, lead);
      }
    },
    get leading() {
      return leadership !== undefined && !leadership.aborted;
    },
    get leader() {
      return leader;
    },
  };
}

/** Waits for the task, but at most `ms` after the signal aborts. @returns whether the task has ended */
async function within(task: Promise<void>, signal: AbortSignal, ms: number): Promise<boolean> {
  const over = new AbortController();
  const patience = async () => {
    if (!signal.aborted) {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true, signal: over.signal });
        over.signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    await pause(ms, over.signal);
    return false;
  };
  try {
    return await Promise.race([task.then(() => true), patience()]);
  } finally {
    over.abort();
  }
}
