export interface FenceOptions {
  /** Time after the last extension at which it closes. */
  readonly afterMs: number;
  readonly onFenced: (reason: string) => void;
  readonly onRestored?: () => void;
}

/** Closes by the process's own monotonic clock unless it is extended in time. */
export interface Fence {
  /** Good for `afterMs` from this performance.now(); opens it again unless it was closed for good. */
  extend(from: number): void;
  /** Closes it now and for good. */
  close(reason: string): void;
  /** Ends the timer without closing. */
  stop(): void;
  readonly fenced: boolean;
  /** 0: never yet. */
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
      // A pause of the process may have let the time pass before its timer could run.
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
