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
  let begun = 0;
  let waiters: { readonly after: number; readonly resolve: () => void }[] = [];
  return {
    get begun() {
      return begun;
    },
    begin: () => ++begun,
    done(number) {
      const done = waiters.filter(({ after }) => number > after);
      waiters = waiters.filter(({ after }) => number <= after);
      for (const { resolve } of done) resolve();
    },
    until: (after, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const give = () => {
          waiters = waiters.filter((candidate) => candidate !== waiter);
          reject(signal?.reason);
        };
        const waiter = {
          after,
          resolve: () => {
            signal?.removeEventListener('abort', give);
            resolve();
          },
        };
        waiters.push(waiter);
        signal?.addEventListener('abort', give, { once: true });
      }),
  };
}
