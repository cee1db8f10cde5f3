import type { RenderJob } from '#crds/gen/renderjobs.ts';
import type { WaitingReason } from './types.ts';

/** Writes a second that saying why jobs wait may cost, however many wait. */
export const WRITES_PER_SECOND = 25;
/** A place that merely moved on is not worth another write of the same job before this. */
export const REFRESH_MS = 5_000;
/** The front of the queue is kept truer than the rest. */
const FRONT = 10;

export interface WaitingLaneOptions {
  readonly find: (uid: string) => RenderJob | undefined;
  /** It is this job's turn to be told. */
  readonly onDue: (uid: string) => void;
}

/**
 * Spreads the writes that tell waiting jobs their reason and place: those never told first, then those whose reason
 * changed, then those whose place did, front of the queue first.
 */
export interface WaitingLane {
  update(waiting: ReadonlyMap<string, WaitingReason>): void;
  /** The reason to write, if it is this job's turn; taken by asking. */
  take(uid: string): WaitingReason | undefined;
  stop(): void;
}

export function createWaitingLane({ find, onDue }: WaitingLaneOptions): WaitingLane {
  let waiting: ReadonlyMap<string, WaitingReason> = new Map();
  const due = new Set<string>();
  const toldAt = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let tokens = WRITES_PER_SECOND;
  let refilled = performance.now();

  /** 0: never told. 1: another reason. 2: another place. Undefined: it says so already, or not yet again. */
  function urgency(uid: string, reason: WaitingReason, now: number): number | undefined {
    const job = find(uid);
    if (!job || due.has(uid)) return undefined;
    const ready = job.status?.conditions?.find(({ type }) => type === 'Ready');
    if (!job.status?.phase) return 0;
    if (ready?.reason !== reason.reason || job.status.queuePosition === undefined) return 1;
    if (job.status.queuePosition === reason.position) return undefined;
    return now - (toldAt.get(uid) ?? Number.NEGATIVE_INFINITY) < REFRESH_MS ? undefined : 2;
  }

  function spend(): void {
    timer = undefined;
    if (stopped) return;
    const now = performance.now();
    tokens = Math.min(WRITES_PER_SECOND, tokens + ((now - refilled) / 1000) * WRITES_PER_SECOND);
    refilled = now;
    const candidates: { readonly uid: string; readonly rank: number }[] = [];
    for (const [uid, reason] of waiting) {
      const level = urgency(uid, reason, now);
      if (level === undefined) continue;
      const position = reason.position ?? 0;
      const age = Math.max(0, 1e6 - (now - (toldAt.get(uid) ?? 0)) / 1e3);
      candidates.push({ uid, rank: level * 1e9 + (position <= FRONT ? position : 1e3 + age) });
    }
    candidates.sort((a, b) => a.rank - b.rank);
    for (const { uid } of candidates.splice(0, Math.floor(tokens))) {
      tokens--;
      due.add(uid);
      onDue(uid);
    }
    // Either the budget ran out, or places may go stale until the next pass.
    if (waiting.size > 0) timer = setTimeout(spend, candidates.length > 0 ? 200 : REFRESH_MS / 2);
  }

  return {
    update(latest) {
      waiting = latest;
      for (const uid of toldAt.keys()) if (!latest.has(uid)) toldAt.delete(uid);
      for (const uid of due) if (!latest.has(uid)) due.delete(uid);
      if (stopped) return;
      clearTimeout(timer);
      spend();
    },
    take(uid) {
      if (!due.delete(uid)) return undefined;
      toldAt.set(uid, performance.now());
      return waiting.get(uid);
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
