export interface FenceOptions {
  /** Time after the last extension at which the fence closes, in ms. */
  readonly afterMs: number;
  readonly onFenced: (reason: string) => void;
  readonly onRestored?: () => void;
}

/** A fence that closes by the process's own monotonic clock unless it is extended in time. */
export interface Fence {
  /**
   * Keeps the fence open until `afterMs` after `from` (performance.now()). Opens it again unless it was closed for
   * good.
   */
  extend(from: number): void;
  /** Closes the fence now and for good. */
  close(reason: string): void;
  /** Stops the timer without closing the fence. */
  stop(): void;
  readonly fenced: boolean;
  /** Latest `from`, by performance.now(). 0: never extended. */
  readonly lastExtended: number;
}

export function createFence(options: FenceOptions): Fence {
  let timer: NodeJS.Timeout | undefined;
  let lastExtended = 0;
  let fenced = false;
  let forGood = false;

  function fall(reason: string): void {
    clearTimeout(timer);
    if (fenced) return;
    fenced = true;
    options.onFenced(reason);
  }
  const lapse = () => fall(`not renewed for ${options.afterMs} ms`);

  return {
    extend(from) {
      if (forGood) return;
      const left = from + options.afterMs - performance.now();
      // If the process was paused, the time may have passed before the timer could run.
      const lapsed = lastExtended > 0 && performance.now() - lastExtended >= options.afterMs;
      if (lapsed || left <= 0) lapse();
      lastExtended = Math.max(lastExtended, from);
      if (left <= 0) return;
      clearTimeout(timer);
      timer = setTimeout(lapse, left);
      timer.unref();
      if (fenced) {
        fenced = false;
        options.onRestored?.();
      }
    },
    close(reason) {
      forGood = true;
      fall(reason);
    },
    stop() {
      forGood = true;
      clearTimeout(timer);
    },
    get fenced() {
      return fenced;
    },
    get lastExtended() {
      return lastExtended;
    },
  };
}
