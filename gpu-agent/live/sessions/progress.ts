import type { SessionTable } from './session-table.ts';

/** Interval between the progress events of streams, in ms. */
const PROGRESS_MS = 2_000;

/**
 * Tells of each session that had messages since the last event.
 * @returns `run` starts or stops it
 */
export function createProgress(table: SessionTable, tell: (id: string) => void) {
  let timer: NodeJS.Timeout | undefined;
  /** Number of messages at the last event, by session. */
  let lastCounts = new Map<string, number>();

  function look(): void {
    const now = new Map<string, number>();
    for (const { id, received, converted, dropped } of table.held()) {
      const messages = received + converted + dropped;
      now.set(id, messages);
      if (messages !== (lastCounts.get(id) ?? 0)) tell(id);
    }
    lastCounts = now;
  }

  return {
    run(wanted: boolean): void {
      if (wanted) timer ??= setInterval(look, PROGRESS_MS);
      else {
        clearInterval(timer);
        timer = undefined;
      }
    },
  };
}
