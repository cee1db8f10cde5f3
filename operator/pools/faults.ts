import type { Fault } from './pod.ts';
import type { PoolSnapshot } from './types.ts';

export interface Faults {
  /** Stops the creation of Pods of this revision for a while, each time for longer. */
  note(pool: string, revision: string, fault: Fault): void;
  /** Returns the pause of this revision; undefined: nothing prevents new Pods. */
  pauseOf(pool: string, revision: string): PoolSnapshot['hold'];
  /** Notes that an agent of this revision, created at this time, became ready. */
  served(pool: string, revision: string, createdAt: number): void;
  forget(pool: string): void;
}

/** Remembers which pools fail to start agents, so that Pods are not created and removed in a loop. */
export function createFaults(baseMs = 10_000, maxMs = 300_000): Faults {
  const known = new Map<
    string,
    { revision: string; count: number; at: number; pause: NonNullable<PoolSnapshot['hold']> }
  >();
  return {
    note(pool, revision, fault) {
      const before = known.get(pool);
      const now = Date.now();
      // Several faults in one pause are one failure.
      const again = before?.revision === revision ? before.count + (now < before.pause.until ? 0 : 1) : 1;
      const until = now + Math.min(maxMs, baseMs * 2 ** (again - 1));
      known.set(pool, { revision, count: again, at: now, pause: { ...fault, until } });
    },
    pauseOf(pool, revision) {
      const fault = known.get(pool);
      return fault?.revision === revision ? fault.pause : undefined;
    },
    served(pool, revision, createdAt) {
      const fault = known.get(pool);
      // The API gives times in whole seconds.
      if (fault?.revision === revision && createdAt + 1_000 > fault.at) known.delete(pool);
    },
    forget: (pool) => void known.delete(pool),
  };
}
