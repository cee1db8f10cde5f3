/** Lets callers wait for conditions over a state that others change. */
export interface Changes {
  /** Must be called after each change of the state. */
  changed(): void;
  /** Resolves when the condition holds, or the signal aborts. */
  until(holds: () => boolean, signal?: AbortSignal): Promise<void>;
}

export function createChanges(): Changes {
  const checks = new Set<() => void>();
  return {
    changed() {
      for (const check of checks) check();
    },
    until: (holds, signal) =>
      new Promise((resolve) => {
        const check = () => {
          if (!holds() && !signal?.aborted) return;
          checks.delete(check);
          signal?.removeEventListener('abort', check);
          resolve();
        };
        checks.add(check);
        signal?.addEventListener('abort', check);
        check();
      }),
  };
}
