import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { WaitingReason } from './types.ts';

/** Writes a second that telling jobs their reason may cost, however many wait. */
export const TELL_PER_SECOND = 25;
/** Writes a second that keeping their places true may cost. */
export const REFRESH_PER_SECOND = 5;
/** Such writes under way at once. */
export const MAX_UNDER_WAY = 2;
/**
 * After each, a pause so many times as long as it took: when the API is slow, what it can take is for work that moves.
 */
const PAUSE = 4;
/** The longest such pause. */
const MAX_PAUSE_MS = 2_000;
/** The queue is looked through this often at most. */
const LOOK_MS = 1000 / TELL_PER_SECOND;
/** A place that merely moved on is not worth another write of the same job before this; at the front, before that. */
const REFRESH_MS = 30_000;
const FRONT_REFRESH_MS = 4_000;
const FRONT = 10;
/** A place is not worth a write when the job begins sooner than that at the pace at which the queue moves. */
const SOON_MS = FRONT_REFRESH_MS;
/** The pace is that since a look at all places, which is so old at least and at most twice as old. */
const PACE_MS = 2_000;
/** The reasons about which nothing is to be done; which of them it is may change with every job that ends. */
const IN_TURN: ReadonlySet<string | undefined> = new Set(['SlotsBusy', 'MemoryBusy', 'AccountShare']);

export interface WaitingLaneOptions {
  readonly find: (uid: string) => RenderJob | undefined;
  /** It is this job's turn to be told. */
  readonly onDue: (uid: string) => void;
  /** Monotonic milliseconds. Default: performance.now. */
  readonly clock?: () => number;
}

/**
 * Spreads the writes that tell waiting jobs their reason and place. Those that were told no place yet, and those about
 * whose new reason something is to be done, are told first; a place that moved on, or that it is now merely a matter of
 * time, is worth a write unless the job is about to begin. Front of the queue first.
 */
export interface WaitingLane {
  update(waiting: ReadonlyMap<string, WaitingReason>): void;
  /** The reason to write, if it is this job's turn; taken by asking. */
  take(uid: string): WaitingReason | undefined;
  /** Whatever was to be done about the job has been done. */
  done(uid: string): void;
  stop(): void;
}

type Urgency = 'tell' | 'refresh';

export function createWaitingLane(options: WaitingLaneOptions): WaitingLane {
  const { find, onDue, clock = () => performance.now() } = options;
  let waiting: ReadonlyMap<string, WaitingReason> = new Map();
  const due = new Set<string>();
  /** States when each write under way was called for. */
  const underWay = new Map<string, number>();
  const toldAt = new Map<string, number>();
  let places = { at: clock(), of: new Map<string, number | undefined>() };
  let earlierPlaces = places;
  const budgets = {
    tell: createBudget(TELL_PER_SECOND, clock),
    refresh: createBudget(REFRESH_PER_SECOND, clock),
  };
  let timer: NodeJS.Timeout | undefined;
  let notBefore = Number.NEGATIVE_INFINITY;
  let stopped = false;

  /** Undefined: its status says so already, or it is not worth a write yet. */
  function urgencyOf(uid: string, reason: WaitingReason, now: number): Urgency | undefined {
    const job = find(uid);
    if (!job || underWay.has(uid)) return undefined;
    const ready = job.status?.conditions?.find(({ type }) => type === 'Ready');
    const place = job.status?.queuePosition;
    const inTurn = IN_TURN.has(reason.reason);
    const other = ready?.reason !== reason.reason && !(inTurn && IN_TURN.has(ready?.reason));
    if (!job.status?.phase || (other && (place === undefined || !inTurn))) return 'tell';
    if (beginsSoon(uid, reason, now)) return undefined;
    if (other) return 'refresh';
    if (place === reason.position) return undefined;
    const pause = (reason.position ?? 0) <= FRONT ? FRONT_REFRESH_MS : REFRESH_MS;
    return now - (toldAt.get(uid) ?? Number.NEGATIVE_INFINITY) < pause ? undefined : 'refresh';
  }

  /** At the pace of the last seconds: when the queue stops, nobody begins soon any more. */
  function beginsSoon(uid: string, { position = 0 }: WaitingReason, now: number): boolean {
    const moved = (earlierPlaces.of.get(uid) ?? 0) - position;
    return moved > 0 && (position * (now - earlierPlaces.at)) / moved < SOON_MS;
  }

  function lookAtPlaces(now: number): void {
    if (now - places.at < PACE_MS) return;
    earlierPlaces = places;
    places = { at: now, of: new Map([...waiting].map(([uid, { position }]) => [uid, position])) };
  }

  function spend(): void {
    clearTimeout(timer);
    timer = undefined;
    lookAtPlaces(clock());
    // The end of one calls again.
    if (stopped || waiting.size === 0 || underWay.size >= MAX_UNDER_WAY) return;
    const now = clock();
    if (now < notBefore) {
      timer = setTimeout(spend, notBefore - now);
      return;
    }
    notBefore = now + LOOK_MS;
    // In queue order, which is the order in which they are of interest.
    const wishes: Record<Urgency, string[]> = { tell: [], refresh: [] };
    for (const [uid, reason] of waiting) {
      const urgency = urgencyOf(uid, reason, now);
      if (urgency) wishes[urgency].push(uid);
      if (wishes.tell.length >= MAX_UNDER_WAY) break;
    }
    // However many have not been told yet, one at the front is kept true beside them.
    const atMost = {
      refresh: wishes.tell.length > 0 ? MAX_UNDER_WAY - 1 : MAX_UNDER_WAY,
      tell: MAX_UNDER_WAY,
    };
    for (const urgency of ['refresh', 'tell'] as const) {
      for (const uid of wishes[urgency]) {
        if (underWay.size >= atMost[urgency] || !budgets[urgency].take()) break;
        underWay.set(uid, now);
        due.add(uid);
        onDue(uid);
      }
    }
    timer = setTimeout(spend, wishes.tell.length > 0 ? LOOK_MS : 500);
  }

  return {
    update(latest) {
      waiting = latest;
      for (const uid of toldAt.keys()) if (!latest.has(uid)) toldAt.delete(uid);
      spend();
    },
    take(uid) {
      if (!due.delete(uid)) return undefined;
      toldAt.set(uid, clock());
      return waiting.get(uid);
    },
    done(uid) {
      due.delete(uid);
      const since = underWay.get(uid);
      if (since === undefined) return;
      underWay.delete(uid);
      const now = clock();
      notBefore = Math.max(notBefore, now + Math.min((now - since) * PAUSE, MAX_PAUSE_MS));
      spend();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** So many a second, saved up for at most one. */
function createBudget(perSecond: number, clock: () => number): { take(): boolean } {
  let tokens = perSecond;
  let at = clock();
  return {
    take() {
      const now = clock();
      tokens = Math.min(perSecond, tokens + ((now - at) / 1000) * perSecond);
      at = now;
      if (tokens < 1) return false;
      tokens--;
      return true;
    },
  };
}
