import type { RenderErrorCode, RenderStage } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Size } from '@semblance/media/types';
import { createRemembered } from '../remembered.ts';
import { createPace, type Pace } from './pace.ts';

/** One attempt at a RenderJob: the job's uid and the attempt number, which is the fencing token. */
export interface AttemptRef {
  readonly jobUid: string;
  readonly attempt: number;
}

export interface AttemptOutput {
  readonly key: string;
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly sha256Hex: string;
  readonly unit: 'image' | 'second';
  readonly milliUnits: number;
  /** Of a video's frames, in pixels. */
  readonly size: Size | undefined;
  readonly stages: readonly RenderStage[];
  readonly engine: string;
  readonly findings?: Findings | undefined;
}

export interface AttemptFailure {
  readonly code: RenderErrorCode;
  readonly message: string;
  /** What the engine found out before. */
  readonly findings?: Findings | undefined;
}

/**
 * How an attempt ended.
 * - succeeded: the output is stored.
 * - failed: the work itself cannot be done; another attempt would end the same way.
 * - interrupted: an engine, the network or this node had a fault; another attempt may succeed.
 * - stopped: a caller stopped it, or the agent gave it up (drain, end, lost Lease).
 */
export type Outcome =
  | { readonly state: 'succeeded'; readonly output: AttemptOutput }
  | { readonly state: 'failed' | 'interrupted' | 'stopped'; readonly failure: AttemptFailure };

/** An attempt as the agent holds it. */
export interface Attempt {
  readonly ref: AttemptRef;
  readonly slots: number;
  readonly startedAtMs: number;
  /** Fraction done in [0, 1]; never decreases. */
  readonly progress: number;
  readonly stage: string;
  /** Estimate of the remaining time in seconds; undefined until there is enough to estimate from. */
  readonly etaSeconds: number | undefined;
  /** Undefined while it runs. */
  readonly outcome: Outcome | undefined;
}

export type StartDecision =
  | { readonly kind: 'begin'; readonly attempt: Attempt }
  /** The same attempt began before; give the same answer. */
  | { readonly kind: 'known' }
  /** An older attempt of the job still runs here; end it, then decide again. */
  | { readonly kind: 'after'; readonly older: AttemptRef }
  | { readonly kind: 'refused'; readonly why: 'fenced' | 'draining' | 'no-slot'; readonly message: string };

export const LIMITS = {
  /** Most ended attempts that wait for their acknowledgement; at this number no new work is accepted. */
  unacknowledged: 1_000,
  /** Least number of jobs whose newest attempt is remembered. */
  fences: 10_000,
  /** Time for which every job's newest attempt is remembered, in ms. */
  fenceMs: 3_600_000,
  /** Time after which an unacknowledged result is forgotten, in ms. */
  resultMs: 24 * 3_600_000,
} as const;

export interface Progress {
  readonly fraction: number;
  readonly stage: string;
  /** Estimate of the engine, if it gives one. */
  readonly secondsLeft?: number | undefined;
  readonly now: number;
}

/**
 * The agent's attempts and the rules for them, without clock or I/O (times are arguments, in Unix ms).
 *
 * Fencing: the table remembers, for each job, the newest attempt number named to this process. A start needs a
 * higher number, and a stop raises it. So it refuses a start that arrives after its stop, or late from a former
 * operator.
 */
export interface AttemptTable {
  /**
   * @param capacity slots of the engines that are warm
   * @param slots slots that this render takes
   */
  start(
    ref: AttemptRef,
    options: { slots: number; capacity: number; draining: boolean; now: number },
  ): StartDecision;
  /** Forbids the attempt and every older one of its job. Returns those that run; the caller must end them. */
  stop(ref: AttemptRef, now: number): AttemptRef[];
  /** Returns the attempt if this changed it. Progress of an ended or unknown attempt has no effect. */
  progress(ref: AttemptRef, said: Progress): Attempt | undefined;
  /** Ends a running attempt. The first outcome counts. */
  finish(ref: AttemptRef, outcome: Outcome, now: number): Attempt | undefined;
  /** Forgets an ended attempt. `running`: the attempt has not ended and stays. */
  acknowledge(ref: AttemptRef): 'forgotten' | 'unknown' | 'running';
  get(ref: AttemptRef): Attempt | undefined;
  list(): Attempt[];
  running(): Attempt[];
  readonly slotsUsed: number;
}

type Entry = { -readonly [K in keyof Attempt]: Attempt[K] } & {
  endedAtMs: number | undefined;
  /** Undefined until the first stage after the fetch: the pace of the fetch says nothing about the rest. */
  pace: Pace | undefined;
};

function estimate({ pace, progress }: Entry, said: Progress): number | undefined {
  const paced = pace?.secondsLeft(progress, said.now);
  return saidLeft(said) ?? paced;
}

/** Returns the engine's own estimate, if it is valid. */
function saidLeft({ secondsLeft }: Progress): number | undefined {
  return secondsLeft !== undefined && Number.isFinite(secondsLeft) && secondsLeft >= 0
    ? secondsLeft
    : undefined;
}

/** Compares whole seconds, which others see, so that a repeated estimate is not a change. */
function sameTime(a: number | undefined, b: number): boolean {
  return a !== undefined && Math.ceil(a) === Math.ceil(b);
}

const keyOf = (ref: AttemptRef) => `${ref.jobUid}/${ref.attempt}`;

export function createAttemptTable(): AttemptTable {
  const entries = new Map<string, Entry>();
  /** Newest attempt number of each job. */
  const fences = createRemembered<number>(LIMITS.fences, LIMITS.fenceMs);

  const all = () => [...entries.values()];
  const runs = (entry: Entry) => entry.outcome === undefined;

  function fence(ref: AttemptRef, now: number): void {
    fences.set(ref.jobUid, Math.max(ref.attempt, fences.get(ref.jobUid) ?? 0), now);
  }

  function forgetStale(now: number): void {
    const ended = all()
      .filter((entry) => entry.endedAtMs !== undefined)
      .sort((a, b) => (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0));
    let surplus = ended.length - Math.floor(LIMITS.unacknowledged / 2);
    for (const entry of ended) {
      // A stopped attempt has no result: its caller knows that, and takes an unknown attempt as ended.
      const spare = surplus > 0 && entry.outcome?.state === 'stopped';
      if (!spare && now - (entry.endedAtMs ?? now) < LIMITS.resultMs) continue;
      entries.delete(keyOf(entry.ref));
      surplus--;
    }
  }

  const table: AttemptTable = {
    start(ref, { slots, capacity, draining, now }) {
      if (entries.has(keyOf(ref))) return { kind: 'known' };
      const newest = fences.get(ref.jobUid) ?? 0;
      if (ref.attempt <= newest) {
        const message = `attempt ${newest} of this job is known here; ${ref.attempt} is not newer`;
        return { kind: 'refused', why: 'fenced', message };
      }
      if (draining) {
        return { kind: 'refused', why: 'draining', message: 'the agent takes no new work' };
      }
      const older = all().find((entry) => entry.ref.jobUid === ref.jobUid && runs(entry));
      if (older) return { kind: 'after', older: older.ref };
      const free = capacity - table.slotsUsed;
      if (slots > free) {
        const message = `the render takes ${slots} of ${capacity} slots; ${Math.max(0, free)} are free`;
        return { kind: 'refused', why: 'no-slot', message };
      }
      forgetStale(now);
      if (all().filter((entry) => !runs(entry)).length >= LIMITS.unacknowledged) {
        const message = `${LIMITS.unacknowledged} results wait to be acknowledged`;
        return { kind: 'refused', why: 'no-slot', message };
      }
      fence(ref, now);
      const entry: Entry = {
        ref: { jobUid: ref.jobUid, attempt: ref.attempt },
        slots,
        startedAtMs: now,
        progress: 0,
        stage: 'fetch',
        etaSeconds: undefined,
        pace: undefined,
        outcome: undefined,
        endedAtMs: undefined,
      };
      entries.set(keyOf(ref), entry);
      return { kind: 'begin', attempt: entry };
    },
    stop(ref, now) {
      fence(ref, now);
      return all()
        .filter((entry) => runs(entry) && entry.ref.jobUid === ref.jobUid && entry.ref.attempt <= ref.attempt)
        .map((entry) => entry.ref);
    },
    progress(ref, said) {
      const { fraction, stage } = said;
      const entry = entries.get(keyOf(ref));
      if (!entry || !runs(entry)) return undefined;
      // An engine may send invalid numbers; the visible value stays in range and never decreases.
      const value = Number.isFinite(fraction)
        ? Math.min(1, Math.max(entry.progress, fraction))
        : entry.progress;
      const named = stage.slice(0, 64);
      if (value === entry.progress && named === entry.stage) {
        // Only the engine's own estimate counts here: without progress, the pace gives no new one.
        const left = saidLeft(said);
        if (left === undefined || sameTime(entry.etaSeconds, left)) return undefined;
        entry.etaSeconds = left;
        return entry;
      }
      entry.progress = value;
      entry.stage = named;
      if (named !== 'fetch') entry.pace ??= createPace(value, said.now);
      entry.etaSeconds = estimate(entry, said);
      return entry;
    },
    finish(ref, outcome, now) {
      const entry = entries.get(keyOf(ref));
      if (!entry || !runs(entry)) return undefined;
      entry.outcome = outcome;
      entry.etaSeconds = undefined;
      entry.endedAtMs = now;
      if (outcome.state === 'succeeded') entry.progress = 1;
      return entry;
    },
    acknowledge(ref) {
      const entry = entries.get(keyOf(ref));
      if (!entry) return 'unknown';
      if (runs(entry)) return 'running';
      entries.delete(keyOf(ref));
      return 'forgotten';
    },
    get: (ref) => entries.get(keyOf(ref)),
    list: all,
    running: () => all().filter(runs),
    get slotsUsed() {
      return all().reduce((sum, entry) => sum + (runs(entry) ? entry.slots : 0), 0);
    },
  };
  return table;
}
