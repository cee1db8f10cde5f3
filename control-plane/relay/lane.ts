import { createBell } from '@semblance/common/async/bell';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { CLAIM, type Task } from './debts.ts';

/** Most new debts that wait in memory for their turn. */
const WAITING = 32;

type Handed = { readonly task: Task; readonly context: unknown };

export interface DebtLaneOptions {
  /** Number of new debts, and of claimed debts, that are paid at once; read before each payment, at least 1. */
  readonly concurrency: () => number;
  /** Claims due debts; with `early` also others that are not due yet, except these. */
  readonly claim: (early: readonly bigint[] | undefined) => Promise<Task[]>;
  /** Resolves when there is room for another; `recorded` may take longer. Neither ever rejects. */
  readonly pay: (task: Task, context: unknown) => Promise<{ readonly recorded: Promise<void> }>;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly logger: Logger;
}

/** Pays the debts of one kind: new ones from memory, all others from the table. */
export interface DebtLane {
  /** Claims and pays due debts until aborted. */
  poll(signal: AbortSignal): Promise<void>;
  handOver(task: Task, context: unknown): void;
  /** Begins nothing more, and waits for everything that has begun. */
  end(): Promise<void>;
}

export function createLane(options: DebtLaneOptions): DebtLane {
  const { concurrency, claim, pay, leaseMs, pollMs, logger } = options;
  /** Paid debts that are not recorded yet. */
  const unrecorded = new Set<Promise<void>>();
  // New and claimed debts have separate room, so a rush of new ones does not starve the old.
  const handed = { waiting: [] as Handed[], running: 0 };
  const claimed = { waiting: [] as Handed[], running: 0 };
  /** Time at which others may claim again what waits here. */
  let claimedUntil = 0;
  /** The last claim has not returned everything. */
  let more = false;
  /** Ids handed over and not recorded yet. */
  const inHand = new Set<bigint>();
  const running = new Set<Promise<void>>();
  /** Debts were left to the table, and not all of them have been claimed since. */
  let behind = false;
  let left = 0;
  const alarm = createBell();

  function fill(queue: { waiting: Handed[]; running: number }): void {
    if (queue === claimed && performance.now() > claimedUntil) claimed.waiting.length = 0;
    while (queue.running < Math.max(1, concurrency())) {
      const next = queue.waiting.shift();
      if (!next) break;
      queue.running++;
      const work = begin(queue, next).finally(() => running.delete(work));
      running.add(work);
    }
    if (more && claimed.waiting.length === 0) alarm.ring();
  }

  async function begin(queue: { waiting: Handed[]; running: number }, { task, context }: Handed) {
    const { recorded } = await pay(task, context);
    queue.running--;
    const done = recorded.finally(() => {
      inHand.delete(task.id);
      unrecorded.delete(done);
    });
    unrecorded.add(done);
    fill(queue);
  }

  async function poll(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', alarm.ring, { once: true });
    while (!signal.aborted) {
      if (claimed.waiting.length === 0 && claimed.running < Math.max(1, concurrency())) {
        const leftBefore = left;
        const began = performance.now();
        try {
          const tasks = await claim(behind ? [...inHand] : undefined);
          if (tasks.length < CLAIM && left === leftBefore) behind = false;
          more = tasks.length === CLAIM || behind;
          claimedUntil = began + leaseMs / 2;
          claimed.waiting.push(...tasks.map((task) => ({ task, context: undefined })));
          fill(claimed);
        } catch (error) {
          more = false;
          logger.debug(`cannot poll the outbox: ${describeError(error)}`);
        }
      }
      await alarm.wait(pollMs);
    }
  }

  return {
    poll,
    handOver(task, context) {
      if (behind || handed.waiting.length >= WAITING) {
        left++;
        if (!behind) alarm.ring();
        behind = true;
        return;
      }
      inHand.add(task.id);
      handed.waiting.push({ task, context });
      fill(handed);
    },
    async end() {
      handed.waiting.length = 0;
      claimed.waiting.length = 0;
      await Promise.all([...running]);
      await Promise.all([...unrecorded]);
    },
  };
}
