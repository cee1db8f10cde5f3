import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { WaitingReason } from './types.ts';

/** Most writes a second that tell jobs their reason, however many wait. */
export const TELL_PER_SECOND = 25;
/** Most writes a second that keep places up to date. */
export const REFRESH_PER_SECOND = 5;
/** Most such writes under way at once. */
export const MAX_UNDER_WAY = 2;
/**
 * Factor from the time of each write to the pause after it. When the API is slow, its capacity is for jobs that
 * progress.
 */
const PAUSE = 4;
/** Longest such pause, in ms. */
const MAX_PAUSE_MS = 2_000;
/** Shortest interval between two passes over the queue, in ms. */
const LOOK_MS = 1000 / TELL_PER_SECOND;
/**
 * Shortest interval between writes when only the place of a job moved, in ms: in general, and for the first FRONT
 * jobs.
 */
const REFRESH_MS = 30_000;
const FRONT_REFRESH_MS = 4_000;
const FRONT = 10;
/** The place of a job that begins sooner, at the present pace of the queue, is not worth a write. In ms. */
const SOON_MS = FRONT_REFRESH_MS;
/** Least age of the places that give the pace, in ms; they are at most twice as old. */
const PACE_MS = 2_000;
/** Reasons that require no action. The end of any job may change one into another. */
const IN_TURN: ReadonlySet<string | undefined> = new Set([
  'SlotsBusy',
  'MemoryBusy',
  'CardsBusy',
  'AccountShare',
]);

export interface WaitingLaneOptions {
  readonly find: (uid: string) => RenderJob | undefined;
  /** Called when it is this job's turn to be told. */
  readonly onDue: (uid: string) => void;
}

/**
 * Spreads the writes that tell waiting jobs their reason and place, from the front of the queue. Jobs without a
 * place yet, or with a new reason that requires action, come first. A moved place, or another reason, is worth a
 * write unless the job is about to begin.
 */
export interface WaitingLane {
  update(waiting: ReadonlyMap<string, WaitingReason>): void;
  /** Returns the reason to write if it is the job's turn, and ends the turn. */
  take(uid: string): WaitingReason | undefined;
  /** Must be called when the job has been processed. */
  done(uid: string): void;
  stop(): void;
}

type Urgency = 'tell' | 'refresh';

export function createWaitingLane(options: WaitingLaneOptions): WaitingLane {
  const { find, onDue } = options;
  let waiting: ReadonlyMap<string, WaitingReason> = new Map();
  const due = new Set<string>();
  /** When each write under way was requested, by performance.now. */
  const underWay = new Map<string, number>();
  const toldAt = new Map<string, number>();
  let places = { at: performance.now(), of: new Map<string, number | undefined>() };
  let earlierPlaces = places;
  const budgets = {
    tell: createBudget(TELL_PER_SECOND),
    refresh: createBudget(REFRESH_PER_SECOND),
  };
  let timer: NodeJS.Timeout | undefined;
  let notBefore = Number.NEGATIVE_INFINITY;
  let stopped = false;

  /** Returns undefined when the status is up to date or not yet worth a write. */
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

  /** Uses the pace of the last seconds: when the queue stops, no job is about to begin. */
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
    lookAtPlaces(performance.now());
    // The end of a write calls this again.
    if (stopped || waiting.size === 0 || underWay.size >= MAX_UNDER_WAY) return;
    const now = performance.now();
    if (now < notBefore) {
      timer = setTimeout(spend, notBefore - now);
      return;
    }
    notBefore = now + LOOK_MS;
    // In queue order, so that the front comes first.
    const wishes: Record<Urgency, string[]> = { tell: [], refresh: [] };
    for (const [uid, reason] of waiting) {
      const urgency = urgencyOf(uid, reason, now);
      if (urgency) wishes[urgency].push(uid);
      if (wishes.tell.length >= MAX_UNDER_WAY) break;
    }
    // However many have not been told yet, one write may keep the front up to date.
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
      toldAt.set(uid, performance.now());
      return waiting.get(uid);
    },
    done(uid) {
      due.delete(uid);
      const since = underWay.get(uid);
      if (since === undefined) return;
      underWay.delete(uid);
      const now = performance.now();
      notBefore = Math.max(notBefore, now + Math.min((now - since) * PAUSE, MAX_PAUSE_MS));
      spend();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** Token bucket of `perSecond` tokens a second, which saves up at most one second. */
function createBudget(perSecond: number): { take(): boolean } {
  let tokens = perSecond;
  let at = performance.now();
  return {
    take() {
      const now = performance.now();
      tokens = Math.min(perSecond, tokens + ((now - at) / 1000) * perSecond);
      at = now;
      if (tokens < 1) return false;
      tokens--;
      return true;
    },
  };
}
