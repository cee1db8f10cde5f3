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
  /** Of an event: the status reached. */
  readonly status: string | null;
  readonly createdAt: Date;
  /** How often it was tried before by a poll. */
  readonly attempts: number;
}

/** Holds what paying a debt brought that is to be kept with it: the uid of the RenderJob. */
export interface TaskResult {
  readonly renderJobUid?: string;
}

export interface Lane<Context> {
  /**
   * Pays one debt; called again, perhaps by another process, until it has resolved once, so it must be harmless to
   * repeat. Throws when it is to be tried again.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most handlers have nothing to say
  readonly handle: (task: Task, context: Context | undefined) => Promise<TaskResult | void>;
  /**
   * Debts just handed over, and debts found by a poll, that this process pays at once: so many of each. Asked anew
   * before each, so that it may follow the load; at least 1.
   */
  readonly concurrency: () => number;
}

export interface OutboxOptions<Contexts extends Record<TaskKind, unknown>> {
  readonly database: Database;
  readonly logger: Logger;
  readonly lanes: { readonly [K in TaskKind]: Lane<Contexts[K]> };
  readonly pollMs?: number;
  /** A debt claimed by a process that dies is free for others after this long. Default 10 s. */
  readonly leaseMs?: number;
  /** How long after its commit a debt falls due for everyone. Default: that of `outbox.due_at`, 2 s. */
  readonly ownMs?: number;
  /** Pause after the n-th failed attempt. */
  readonly backoffMs?: (attempts: number) => number;
  readonly onPaid?: (kind: TaskKind, seconds: number) => void;
}

export interface Outbox<Contexts extends Record<TaskKind, unknown>> {
  /**
   * Pays, at once and in this process, a debt that has just been committed. Nothing depends on it: a debt not paid
   * within its first two seconds is found by the poll of any process.
   */
  handOver<K extends TaskKind>(kind: K, task: Omit<Task, 'attempts'>, context?: Contexts[K]): void;
  /** Polls for debts that are due, until aborted; then waits for those being paid. */
  run(signal: AbortSignal): Promise<void>;
}

/** Debts claimed in one statement. */
const CLAIM = 32;
/** Debts just handed over that wait in memory for their turn. */
const WAITING = 32;
/** How long after its commit a debt falls due for everyone: the default of `outbox.due_at`. */
const OWN_MS = 2_000;

type Handed = { readonly task: Task; readonly context: unknown };

/**
 * Pays what committed transactions owe to other systems. Lanes do not wait for each other, nor debts of a lane: a
 * failing one is put off with backoff while the others go on.
 *
 * A debt is paid at once when there is room, and waits a little in memory when there is not. When more come than can
 * be paid, they are left to the table, and paid from there in the order in which they were made, until it has been
 * emptied: so the old do not stand back behind the new.
 */
export function createOutbox<Contexts extends Record<TaskKind, unknown>>(
  options: OutboxOptions<Contexts>,
): Outbox<Contexts> {
  const { database, logger, lanes, pollMs = 500, leaseMs = 10_000, backoffMs = defaultBackoff } = options;
  const { ownMs = OWN_MS } = options;
  const receipts = createReceipts({ database });
  /** States what has been paid, until it is recorded. */
  const unrecorded = new Set<Promise<void>>();
  let ended = false;

  /** Resolves when there is room for another; `recorded` may take longer. Neither ever rejects. */
  async function pay(kind: TaskKind, task: Task, context: unknown): Promise<{ recorded: Promise<void> }> {
    const failed = async (error: unknown) => {
      const reason = describeError(error);
      logger.debug({ task: task.id.toString(), kind, jobId: task.jobId, attempts: task.attempts }, reason);
      // Of a debt just handed over nothing is written: it falls due by itself.
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

  /** The oldest that are due; `early`: and those that are not yet, but for what this process has in hand. */
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
    // Handed over and claimed debts have room of their own: a rush of new ones does not starve the old.
    const handed = { waiting: [] as Handed[], running: 0 };
    const claimed = { waiting: [] as Handed[], running: 0 };
    /** States when others may claim again what waits here. */
    let claimedUntil = 0;
    /** The last claim has not brought all there was. */
    let more = false;
    /** Ids handed over and not recorded yet. */
    const inHand = new Set<bigint>();
    const running = new Set<Promise<void>>();
    /** Debts have been left to the table, and not all of them have been claimed since. */
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
      /** Begins nothing more, and waits for what has been begun. */
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
