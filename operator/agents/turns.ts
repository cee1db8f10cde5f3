export interface TurnsOptions {
  /** Shortest interval between two turns, in ms. */
  readonly everyMs: number;
  /** Called when a name gets its turn. It must then ask again or pass. */
  readonly onTurn: (name: string) => void;
}

/**
 * Rate limiter for many names. It gives single turns in the order of asking, and wakes only the name whose turn it
 * is.
 */
export interface Turns {
  /** @returns whether the name may act at once; else `onTurn` follows */
  ask(name: string): boolean;
  /** Gives up a turn, or a place among those that wait. */
  pass(name: string): void;
  stop(): void;
}

export function createTurns({ everyMs, onTurn }: TurnsOptions): Turns {
  const waiting = new Set<string>();
  let current: string | undefined;
  let nextAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  function arm(): void {
    if (timer || current !== undefined || waiting.size === 0 || stopped) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        const [name] = waiting;
        if (name === undefined) return;
        waiting.delete(name);
        current = name;
        onTurn(name);
      },
      Math.max(0, nextAt - performance.now()),
    );
  }

  return {
    ask(name) {
      const mine = current === name;
      const free = current === undefined && waiting.size === 0 && performance.now() >= nextAt;
      if (!mine && !free) waiting.add(name);
      else {
        current = undefined;
        nextAt = performance.now() + everyMs;
      }
      arm();
      return mine || free;
    },
    pass(name) {
      waiting.delete(name);
      if (current === name) current = undefined;
      arm();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
