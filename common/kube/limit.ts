/** Limits one piece of work by signals and by time. */
export interface Limit {
  readonly signal: AbortSignal;
  /** Sets the time limit, counted from now. When it passes, `signal` aborts with a `TimeoutError`. */
  expireIn(milliseconds: number): void;
  /** Removes the timer and the listeners. Must be called when the work is done, however it ended. */
  end(): void;
}

/**
 * Creates a limit that aborts when any of `signals` does, for the same reason. It serves work that is done often:
 * what `AbortSignal.any` and `AbortSignal.timeout` leave behind stays until its time is over and ends in an
 * exception that nobody reads.
 */
export function createLimit(signals: readonly AbortSignal[]): Limit {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const end = () => {
    clearTimeout(timer);
    for (const signal of signals) signal.removeEventListener('abort', onAbort);
  };
  const abort = (reason: unknown) => {
    end();
    controller.abort(reason);
  };
  const onAbort = ({ target }: Event) => abort((target as AbortSignal).reason);
  const aborted = signals.find((signal) => signal.aborted);
  if (aborted) controller.abort(aborted.reason);
  else for (const signal of signals) signal.addEventListener('abort', onAbort);
  return {
    signal: controller.signal,
    expireIn(milliseconds) {
      clearTimeout(timer);
      if (controller.signal.aborted) return;
      timer = setTimeout(
        () => abort(new DOMException(`not done within ${milliseconds} ms`, 'TimeoutError')),
        milliseconds,
      );
    },
    end,
  };
}
