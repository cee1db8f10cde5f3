import { createChanges } from '../async/changes.ts';

/** Counts lists, so that callers can wait for one that began after they asked. */
export interface ListCount {
  /** Number of the last list that began. */
  readonly begun: number;
  /** Returns the number of a list that begins. */
  begin(): number;
  /** Must be called with the number of each list that succeeded. */
  done(number: number): void;
  /** Resolves when a list with a higher number has succeeded; rejects with the signal's reason. */
  until(after: number, signal?: AbortSignal): Promise<void>;
}

export function createListCount(): ListCount {
  const changes = createChanges();
  let begun = 0;
  /** Highest number of a list that succeeded. */
  let succeeded = 0;
  return {
    get begun() {
      return begun;
    },
    begin: () => ++begun,
    done(number) {
      succeeded = Math.max(succeeded, number);
      changes.changed();
    },
    async until(after, signal) {
      signal?.throwIfAborted();
      await changes.until(() => succeeded > after, signal);
      if (succeeded <= after) throw signal?.reason;
    },
  };
}
