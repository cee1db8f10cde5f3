import { type Handlers, isNewer, type Lease } from '@semblance/common/kube/index';
import type { LeaseState } from './view.ts';

/** Time without a renewal after which an agent gets no new work, in ms. Agents renew every two seconds. */
const LATE_AFTER_MS = 5_000;
/**
 * The same limit as a share of the Lease's duration; the later of the two counts. They are equal for the eight
 * seconds that agents ask for.
 */
const LATE_SHARE = 5 / 8;
/**
 * Time after the duration of a Lease until its holder counts as ended, in ms. The holder fences itself within the
 * duration.
 */
const MARGIN_MS = 1_500;
/** Duration assumed for an agent whose Lease was never seen, in ms. */
const DEFAULT_DURATION_MS = 8_000;
/**
 * Longest silence of a working watch of Leases, in ms. The leader renews its own Lease in the same namespace every
 * two seconds. A silent watch has therefore not been working, whatever its connection says.
 */
const SILENCE_MS = 6_000;

/** Number of processes remembered however long they are silent, and time after which others are forgotten, in ms. */
const REMEMBERED = 1_000;
const FORGET_AFTER_MS = 3_600_000;

/** A moment by both clocks, in ms. */
interface Moment {
  readonly at: number;
  readonly lived: number;
}

export interface LeaseWatch {
  readonly healthySince: number | undefined;
  readonly lastActivity: number;
}

export interface LeaseTrackerOptions {
  /** Health of the reflector of Leases. */
  readonly watch: LeaseWatch;
  readonly find: (name: string) => Lease | undefined;
  /** Returns the milliseconds that this process has lived through. */
  readonly lived: () => number;
}

export interface LeaseTracker {
  readonly handlers: Handlers<Lease>;
  /**
   * Judges a process by its Lease. `lost` needs proof: the Lease was released, or was not renewed for its duration
   * plus a margin. In that time the API must have worked without a gap, by this process's monotonic clock. A
   * standstill of this process silences nobody, because it read nothing meanwhile.
   */
  stateOf(agent: string, incarnation: string): LeaseState;
}

export function createLeaseTracker(options: LeaseTrackerOptions): LeaseTracker {
  const { watch, find, lived } = options;
  /** When each process was last seen to renew, or first asked about. */
  const renewed = new Map<string, Moment>();
  /** Start of the present series of events without a gap, by performance.now. */
  let continuousSince: number | undefined;
  let lastEvent = Number.NEGATIVE_INFINITY;

  function remember(process: string, at: number): Moment {
    const moment = { at, lived: lived() };
    renewed.delete(process);
    renewed.set(process, moment);
    // The map is ordered by the last renewal, so the longest silent are forgotten first.
    for (const [oldest, since] of renewed) {
      if (renewed.size <= REMEMBERED || at - since.at < FORGET_AFTER_MS) break;
      renewed.delete(oldest);
    }
    return moment;
  }

  const key = (agent: string, incarnation: string) => `${agent}/${incarnation}`;

  function observe(lease: Lease, former?: Lease): void {
    const now = performance.now();
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
        // A living holder writes the Lease anew, and has the whole duration for that.
        if (holder) remember(key(lease.metadata.name ?? '', holder), performance.now());
      },
    },
    stateOf(agent, incarnation) {
      const now = performance.now();
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
      // A Lease with a longer duration is renewed less often.
      return silentMs > Math.max(LATE_AFTER_MS, duration * LATE_SHARE) ? 'late' : 'held';
    },
  };
}
