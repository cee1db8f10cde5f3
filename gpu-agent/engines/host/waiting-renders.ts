import type { EngineProcess } from './engine-process.ts';

export interface WaitingRendersOptions {
  readonly findFree: () => EngineProcess | undefined;
  /** Longest wait of a render, in ms. */
  readonly waitMs: number;
  /** Aborts when the pool closes. */
  readonly closing: AbortSignal;
  /** Creates the error of a render that waited too long. */
  readonly late: () => Error;
  /** Creates the error of a render whose pool closes. */
  readonly closed: () => Error;
}

/** Renders that wait for a free engine process, first come, first served. */
export interface WaitingRenders {
  /**
   * Uses a free process, at once or when one is warm again. `act` is called in the turn in which the process was
   * found free, so that two renders never get the same place.
   */
  use<T>(signal: AbortSignal, act: (process: EngineProcess) => Promise<T>): Promise<T>;
  /** Must be called when a process may have become free. */
  handOut(): void;
}

export function createWaitingRenders(options: WaitingRendersOptions): WaitingRenders {
  const { findFree, closing } = options;
  const waiting: ((process: EngineProcess) => void)[] = [];
  return {
    use(signal, act) {
      const free = waiting.length === 0 ? findFree() : undefined;
      if (free) return act(free);
      return new Promise((resolve, reject) => {
        const settle = (then: () => void) => {
          const at = waiting.indexOf(onFree);
          if (at >= 0) waiting.splice(at, 1);
          clearTimeout(timer);
          signal.removeEventListener('abort', onAbort);
          closing.removeEventListener('abort', onClose);
          then();
        };
        const onFree = (process: EngineProcess) => settle(() => resolve(act(process)));
        const onAbort = () => settle(() => reject(signal.reason));
        const onClose = () => settle(() => reject(options.closed()));
        const timer = setTimeout(() => settle(() => reject(options.late())), options.waitMs);
        signal.addEventListener('abort', onAbort, { once: true });
        closing.addEventListener('abort', onClose, { once: true });
        waiting.push(onFree);
      });
    },
    handOut() {
      for (let free = findFree(); free && waiting.length > 0; free = findFree()) waiting[0]?.(free);
    },
  };
}
