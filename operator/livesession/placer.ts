import { ApiError } from '@semblance/common/errors';
import { type Candidate, choose, prospects } from './choose.ts';
import type { Place, SlotBook } from './slot-book.ts';

/** Longest wait when all slots are taken, in ms. */
export const WAIT_FOR_SLOT_MS = 2_000;
/** Longest queue. Further sessions are refused at once. */
const MAX_WAITING = 1_000;

export interface PlacerOptions {
  readonly book: SlotBook;
  /** Returns undefined when there is no such agent. */
  readonly candidate: (agent: string) => Candidate | undefined;
  readonly onWaiting: (capability: string, waiting: number) => void;
  /** Returns whether a pool is starting agents for it, or still can. Default: none is. */
  readonly mayGrow?: ((capability: string) => boolean) | undefined;
}

export interface PlaceRequest {
  readonly session: string;
  readonly capability: string;
  /** Keys of the places that refused the session. */
  readonly refused: ReadonlySet<string>;
  /** performance.now() until which the session waits. */
  readonly until: number;
  readonly signal: AbortSignal;
}

/** The agents that take live sessions, as last seen, and the queue for their slots. */
export interface Placer {
  /** Must be called when the agent has changed. */
  touch(agent: string): void;
  /** Must be called when a slot may be free. */
  freed(capability: string): void;
  /** Gives the agent no sessions for `ms` milliseconds; `capability` undefined: of any capability. */
  pause(agent: string, ms: number, capability?: string): void;
  /**
   * Returns a free slot, claimed in the book for the session; first come, first served.
   * @throws ApiError `capacity_warming` or `capacity_unavailable`; the signal's reason when it aborts first
   */
  acquire(request: PlaceRequest): Promise<FoundPlace>;
  stop(): void;
}

export type FoundPlace = Place & { readonly address: string };

interface Waiter {
  readonly request: PlaceRequest;
  give(candidate: Candidate): void;
}

export const placeKey = ({ agent, incarnation }: Place): string => `${agent}/${incarnation}`;
const placeOf = ({ name, incarnation }: Candidate): Place => ({ agent: name, incarnation });

export function createPlacer(options: PlacerOptions): Placer {
  const { book } = options;
  const candidates = new Map<string, Candidate>();
  const queues = new Map<string, Set<Waiter>>();
  /** performance.now() until which `agent` or `agent/capability` is paused. */
  const pauses = new Map<string, number>();
  const timers = new Set<NodeJS.Timeout>();

  function isPaused(key: string): boolean {
    const until = pauses.get(key);
    if (until === undefined) return false;
    if (until > performance.now()) return true;
    pauses.delete(key);
    return false;
  }

  /** Drops an agent that is gone. Another of its name starts afresh. */
  function forget(agent: string): void {
    candidates.delete(agent);
    for (const key of pauses.keys()) if (key === agent || key.startsWith(`${agent}/`)) pauses.delete(key);
  }

  function pick(capability: string, request?: PlaceRequest): Candidate | undefined {
    return choose(
      candidates.values(),
      capability,
      (candidate) => book.used(placeOf(candidate), capability),
      (candidate) =>
        isPaused(candidate.name) ||
        isPaused(`${candidate.name}/${capability}`) ||
        (request !== undefined &&
          (request.refused.has(placeKey(placeOf(candidate))) ||
            book.knows(placeOf(candidate), request.session))),
    );
  }

  /** Gives free slots to the waiting sessions, in their order. */
  function pump(capability: string): void {
    const queue = queues.get(capability);
    for (const waiter of queue ?? []) {
      if (!pick(capability)) break;
      const candidate = pick(capability, waiter.request);
      if (!candidate) continue;
      queue?.delete(waiter);
      book.claim(placeOf(candidate), waiter.request.session, capability);
      waiter.give(candidate);
    }
    options.onWaiting(capability, queue?.size ?? 0);
  }

  function pumpAll(): void {
    for (const capability of queues.keys()) pump(capability);
  }

  function refusal(capability: string): ApiError {
    const { warming } = prospects(candidates.values(), capability);
    return warming || options.mayGrow?.(capability)
      ? new ApiError('capacity_warming', 'Capacity is starting up. Try again in about a minute.')
      : new ApiError('capacity_unavailable', 'There is no capacity for a live session right now. Try again.');
  }

  return {
    touch(agent) {
      const candidate = options.candidate(agent);
      if (candidate) candidates.set(agent, candidate);
      else forget(agent);
      pumpAll();
    },
    freed: pump,
    pause(agent, ms, capability) {
      if (!candidates.has(agent)) return;
      pauses.set(capability === undefined ? agent : `${agent}/${capability}`, performance.now() + ms);
      const timer = setTimeout(() => {
        timers.delete(timer);
        pumpAll();
      }, ms + 1);
      timers.add(timer);
    },
    acquire(request) {
      const { capability, signal } = request;
      const queue = queues.get(capability) ?? new Set();
      queues.set(capability, queue);
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const leave = () => {
          clearTimeout(late);
          queue.delete(waiter);
          signal.removeEventListener('abort', abort);
          options.onWaiting(capability, queue.size);
        };
        const abort = () => {
          leave();
          reject(signal.reason);
        };
        const waiter: Waiter = {
          request,
          give(candidate) {
            leave();
            resolve({ ...placeOf(candidate), address: candidate.address });
          },
        };
        const refuse = () => {
          leave();
          reject(refusal(capability));
        };
        const late = setTimeout(refuse, Math.max(0, request.until - performance.now()));
        signal.addEventListener('abort', abort, { once: true });
        queue.add(waiter);
        pump(capability);
        if (!queue.has(waiter)) return;
        const untried = [...candidates.values()].filter(
          (each) => !request.refused.has(placeKey(placeOf(each))),
        );
        const { mayFree } = prospects(untried, capability);
        if (!mayFree || queue.size > MAX_WAITING) refuse();
      });
    },
    stop() {
      for (const timer of timers) clearTimeout(timer);
    },
  };
}
