/**
 * Interval between writes of idle statuses, which only say that a slot is held, in ms. It leaves room for more
 * urgent writes.
 */
const IDLE_EVERY_MS = 100;
/** Delay of an idle status, in ms. Most clients connect sooner, and then only that is written. */
const IDLE_AFTER_MS = 5_000;

/** Spreads the writes of idle statuses over time. */
export interface IdleTurns {
  /** Returns the time in ms until the session's idle status may be written; 0 or less: now. */
  waitOf(session: string): number;
  forget(session: string): void;
}

export function createIdleTurns(): IdleTurns {
  /** performance.now() of each session's write. `turn`: it is a turn of its own among the others. */
  const idle = new Map<string, { readonly at: number; readonly turn: boolean }>();
  let lastTurn = 0;
  return {
    waitOf(session) {
      const now = performance.now();
      const before = idle.get(session) ?? { at: now + IDLE_AFTER_MS, turn: false };
      const due = before.at <= now;
      // Only a session that still needs the write takes a turn.
      if (due && !before.turn) lastTurn = Math.max(now, lastTurn + IDLE_EVERY_MS);
      const next = due && !before.turn ? { at: lastTurn, turn: true } : before;
      idle.set(session, next);
      return next.at - now;
    },
    forget: (session) => void idle.delete(session),
  };
}
