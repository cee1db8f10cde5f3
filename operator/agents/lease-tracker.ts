import { type Handlers, isNewer, type Lease } from '@semblance/common/kube/index';
import type { LeaseState } from './view.ts';

/** Time without a renewal, of the two seconds between renewals, after which an agent gets no new work. */
export const LATE_AFTER_MS = 5_000;
/**
 * or after this share of the Lease's duration, whichever is later: of the eight seconds that agents ask for, the
 * same.
 */
const LATE_SHARE = 5 / 8;
/** Beyond the duration of a Lease before its holder counts as ended; the holder fences itself within the duration. */
export const MARGIN_MS = 1_500;
/** Of an agent whose Lease was never seen. */
const DEFAULT_DURATION_MS = 8_000;
/**
 * The leader renews its own Lease in the same namespace every two seconds, so a watch of Leases that is silent for
 * longer than this has not been working, whatever its connection says.
 */
export const SILENCE_MS = 6_000;

/** Processes remembered however long they have been silent, and how long the others are. */
const REMEMBERED = 1_000;
const FORGET_AFTER_MS = 3_600_000;

/** By each of the two clocks. */
interface Moment {
  readonly at: number;
  readonly lived: number;
}

export interface LeaseWatch {
  readonly healthySince: number | undefined;
  readonly lastActivity: number;
}

export interface LeaseTrackerOptions {
  /** The reflector of Leases. */
  readonly watch: LeaseWatch;
  readonly find: (name: string) => Lease | undefined;
  /** Monotonic milliseconds. Default: performance.now. */
  readonly clock?: () => number;
  /** Those that this process has lived through. Default: of `clock`. */
  readonly lived?: () => number;
}

export interface LeaseTracker {
  readonly handlers: Handlers<Lease>;
  /**
   * Judges a process by its Lease. `lost` only on proof: the Lease was released, or it was not renewed for its whole
   * duration and a margin during which the API was seen to work without a gap, by this process's monotonic clock.
   * Time in which this process stood still makes nobody silent, for it has not read what was sent to it.
   */
  stateOf(agent: string, incarnation: string): LeaseState;
}

export function createLeaseTracker(options: LeaseTrackerOptions): LeaseTracker {
  const { watch, find, clock = () => performance.now(), lived = clock } = options;
  /** States when each process was last seen to renew, or first asked about. */
  const renewed = new Map<string, Moment>();
  /** Since when events have come without a gap. */
  let continuousSince: number | undefined;
  let lastEvent = Number.NEGATIVE_INFINITY;

  function remember(process: string, at: number): Moment {
    const moment = { at, lived: lived() };
    renewed.delete(process);
    renewed.set(process, moment);
    // In order of their last renewal, so that the longest silent are forgotten first.
    for (const [oldest, since] of renewed) {
      if (renewed.size <= REMEMBERED || at - since.at < FORGET_AFTER_MS) break;
      renewed.delete(oldest);
    }
    return moment;
  }

  const key = (agent: string, incarnation: string) => `${agent}/${incarnation}`;

  function observe(lease: Lease, former?: Lease): void {
    const now = clock();
    if (now - lastEvent > SILENCE_MS) continuousSince = now;
    lastEvent = now;
    if (former && !isNewer(lease.metadata.resourceVersion, former.metadata.resourceVersion)) return;
    const holder = lease.spec?.holderIdentity;
    if (holder && lease.spec?.renewTime !== former?.spec?.renewTime) {
      remember(key(lease.metadata.name ?? '', holder), now);
    }
  }

  return {
    handlers: {
      onAdd: (lease) => observe(lease),
      onUpdate: observe,
      onDelete(lease) {
        const holder = lease.spec?.holderIdentity;
        // Its holder writes it anew if it lives; it has the whole duration to do so.
        if (holder) remember(key(lease.metadata.name ?? '', holder), clock());
      },
    },
    stateOf(agent, incarnation) {
      const now = clock();
      const lease = find(agent);
      if (lease && !lease.spec?.holderIdentity) return 'lost';
      const mine = key(agent, incarnation);
      const last = renewed.get(mine) ?? remember(mine, now);
      const silentMs = lived() - last.lived;
      const { healthySince } = watch;
      const working =
        healthySince !== undefined && continuousSince !== undefined && now - lastEvent < SILENCE_MS;
      const from = Math.max(last.at, healthySince ?? now, continuousSince ?? now);
      const seconds = lease?.spec?.leaseDurationSeconds;
      const duration = seconds === undefined ? DEFAULT_DURATION_MS : seconds * 1000;
      if (working && Math.min(now - from, silentMs) > duration + MARGIN_MS) return 'lost';
      // A Lease that lasts longer is renewed less often.
      return silentMs > Math.max(LATE_AFTER_MS, duration * LATE_SHARE) ? 'late' : 'held';
    },
  };
}
