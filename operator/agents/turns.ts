export interface TurnsOptions {
  /** Between two turns. */
  readonly everyMs: number;
  /** It is this one's turn: it is to ask again, or to pass. */
  readonly onTurn: (name: string) => void;
}

/**
 * Lets one of many at a time do what all together may do only so often, in the order in which they asked. Nobody but
 * the one whose turn it is wakes for it.
 */
export interface Turns {
  /** @returns whether it may now; otherwise it is told when it may */
  ask(name: string): boolean;
  /** It has no use for a turn, be it waiting for one or having been given one. */
  pass(name: string): void;
  stop(): void;
}

export function createTurns({ everyMs, onTurn }: TurnsOptions): Turns {
  const waiting = new Set<string>();
  let given: string | undefined;
  let nextAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  function arm(): void {
    if (timer || given !== undefined || waiting.size === 0 || stopped) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        const [name] = waiting;
        if (name === undefined) return;
        waiting.delete(name);
        given = name;
        onTurn(name);
      },
      Math.max(0, nextAt - performance.now()),
    );
  }

  return {
    ask(name) {
      const mine = given === name;
      const free = given === undefined && waiting.size === 0 && performance.now() >= nextAt;
      if (!mine && !free) waiting.add(name);
      else {
        given = undefined;
        nextAt = performance.now() + everyMs;
      }
      arm();
      return mine || free;
    },
    pass(name) {
      waiting.delete(name);
      if (given === name) given = undefined;
      arm();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
