import { backoffMs, jittered } from '@semblance/common/async/backoff';
import { createBell } from '@semblance/common/async/bell';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { Database } from '../storage/database.ts';
import { createReceipts } from './receipts.ts';

export type TaskKind = 'renderjob' | 'event';

export interface Task {
  readonly id: bigint;
  readonly jobId: string;
  /** For an event: the reached status. */
  readonly status: string | null;
  readonly createdAt: Date;
  /** Number of earlier tries by a poll. */
  readonly attempts: number;
}

/** Result of a payment that is stored with the debt: the uid of the RenderJob. */
export interface TaskResult {
  readonly renderJobUid?: string;
}

export interface Lane<Context> {
  /**
   * Pays one debt. It may be called again, also by another process, until it has resolved once, so it must be
   * idempotent. Throws when it is to be tried again.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most handlers have nothing to say
  readonly handle: (task: Task, context: Context | undefined) => Promise<TaskResult | void>;
  /**
   * Number of new debts, and of debts found by a poll, that this process pays at once. Read before each payment, so
   * that it may follow the load; at least 1.
   */
  readonly concurrency: () => number;
}

export interface OutboxOptions<Contexts extends Record<TaskKind, unknown>> {
  readonly database: Database;
  readonly logger: Logger;
  readonly lanes: { readonly [K in TaskKind]: Lane<Contexts[K]> };
  readonly pollMs?: number;
  /** Time after which a debt claimed by a dead process is free for others. Default 10 s. */
  readonly leaseMs?: number;
  /** Time after its commit at which a debt falls due for every process. Default: that of `outbox.due_at`, 2 s. */
  readonly ownMs?: number;
  /** Pause after the n-th failed attempt. */
  readonly backoffMs?: (attempts: number) => number;
  readonly onPaid?: (kind: TaskKind, seconds: number) => void;
}

export interface Outbox<Contexts extends Record<TaskKind, unknown>> {
  /**
   * Pays a debt that has just been committed, at once and in this process. Nothing depends on it: the poll of any
   * process finds a debt that is not paid within two seconds.
   */
  handOver<K extends TaskKind>(kind: K, task: Omit<Task, 'attempts'>, context?: Contexts[K]): void;
  /** Polls for due debts until aborted; then waits for running payments. */
  run(signal: AbortSignal): Promise<void>;
}

/** Debts claimed in one statement. */
const CLAIM = 32;
/** New debts that wait in memory for their turn. */
const WAITING = 32;
/** Time after its commit at which a debt falls due for every process: the default of `outbox.due_at`. */
const OWN_MS = 2_000;

type Handed = { readonly task: Task; readonly context: unknown };

/**
 * Pays what committed transactions owe to other systems. Neither kinds nor debts wait for each other: a failing
 * debt is put off with backoff while the others go on.
 *
 * A debt is paid at once when there is room, and otherwise waits a little in memory. When more arrive than can be
 * paid, they are left to the table and paid from there in order until the table is empty, so that old debts do not
 * wait behind new ones.
 */
export function createOutbox<Contexts extends Record<TaskKind, unknown>>(
  options: OutboxOptions<Contexts>,
): Outbox<Contexts> {
  const { database, logger, lanes, pollMs = 500, leaseMs = 10_000, backoffMs = defaultBackoff } = options;
  const { ownMs = OWN_MS } = options;
  const receipts = createReceipts({ database });
  /** Paid debts that are not recorded yet. */
  const unrecorded = new Set<Promise<void>>();
  let ended = false;

  /** Resolves when there is room for another; `recorded` may take longer. Neither ever rejects. */
  async function pay(kind: TaskKind, task: Task, context: unknown): Promise<{ recorded: Promise<void> }> {
    const failed = async (error: unknown) => {
      const reason = describeError(error);
      logger.debug({ task: task.id.toString(), kind, jobId: task.jobId, attempts: task.attempts }, reason);
      // A debt that was just handed over needs no write: it falls due by itself.
      if (task.attempts > 0) await putOff(task, reason).catch(() => {});
    };
    try {
      const lane = lanes[kind] as Lane<unknown>;
      const result = await lane.handle(task, context);
      const recorded = receipts
        .record({ id: task.id, jobId: task.jobId, renderJobUid: result?.renderJobUid })
        .then(() => options.onPaid?.(kind, (Date.now() - task.createdAt.getTime()) / 1000), failed);
      return { recorded };
    } catch (error) {
      await failed(error);
      return { recorded: Promise.resolve() };
    }
  }

  async function putOff(task: Task, reason: string): Promise<void> {
    const pause = backoffMs(task.attempts);
    await database.fast`
        update outbox set due_at = now() + ${pause} * interval '1 millisecond', last_error = ${reason.replaceAll('\0', '').slice(0, 500)}
        where id = ${task.id}`;
  }

  /**
   * Claims the oldest due debts; `early`: and those that are not due yet, except the ones that this process has in
   * hand.
   */
  async function claim(kind: TaskKind, early: readonly bigint[] | undefined): Promise<Task[]> {
    const horizonMs = early ? ownMs : 0;
    const inHand = (early ?? []).map(String);
    const rows = await database.fast<
      { id: bigint; job_id: string; status: string | null; created_at: Date; attempts: number }[]
    >`
        update outbox set due_at = now() + ${leaseMs} * interval '1 millisecond', attempts = attempts + 1
        where id in (
          select id from outbox
          where kind = ${kind} and due_at <= now() + ${horizonMs} * interval '1 millisecond'
            and (due_at <= now() or attempts = 0 and id <> all(${inHand}::bigint[]))
          order by due_at limit ${CLAIM} for update skip locked
        ) returning id, job_id, status, created_at, attempts`;
    return rows
      .map((row) => ({
        id: row.id,
        jobId: row.job_id,
        status: row.status,
        createdAt: row.created_at,
        attempts: row.attempts,
      }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function openLane(kind: TaskKind) {
    const { concurrency } = lanes[kind];
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
      const { recorded } = await pay(kind, task, context);
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
            const tasks = await claim(kind, behind ? [...inHand] : undefined);
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
      handOver(task: Task, context: unknown): void {
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
      /** Begins nothing more, and waits for everything that has begun. */
      async end(): Promise<void> {
        handed.waiting.length = 0;
        claimed.waiting.length = 0;
        await Promise.all([...running]);
      },
    };
  }

  const open = { renderjob: openLane('renderjob'), event: openLane('event') };
  return {
    handOver(kind, task, context) {
      if (!ended) open[kind].handOver({ ...task, attempts: 0 }, context);
    },
    async run(signal) {
      await Promise.all([open.renderjob.poll(signal), open.event.poll(signal)]);
      ended = true;
      await Promise.all([open.renderjob.end(), open.event.end()]);
      await Promise.all([...unrecorded]);
    },
  };
}

function defaultBackoff(attempts: number): number {
  return jittered(backoffMs(attempts, 250, 3_000));
}
