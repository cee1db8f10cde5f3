import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';

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

/** What paying a debt brought that is to be kept with it: the uid of the RenderJob. */
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
  /** Debts paid at once by this process. */
  readonly concurrency: number;
}

export interface OutboxOptions<Contexts extends Record<TaskKind, unknown>> {
  readonly database: Database;
  readonly logger: Logger;
  readonly lanes: { readonly [K in TaskKind]: Lane<Contexts[K]> };
  readonly pollMs?: number;
  /** A debt claimed by a process that dies is free for others after this long. Default 10 s. */
  readonly leaseMs?: number;
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

/**
 * Pays what committed transactions owe to other systems. Lanes do not wait for each other, nor debts of a lane: a
 * failing one is put off with backoff while the others go on.
 */
export function createOutbox<Contexts extends Record<TaskKind, unknown>>(
  options: OutboxOptions<Contexts>,
): Outbox<Contexts> {
  const { database, logger, lanes, pollMs = 500, leaseMs = 10_000, backoffMs = defaultBackoff } = options;
  // Handed over and polled debts have room of their own: a rush of new ones does not starve the old.
  const running: Record<TaskKind, Set<Promise<void>>> = { renderjob: new Set(), event: new Set() };
  const polled: Record<TaskKind, Set<Promise<void>>> = { renderjob: new Set(), event: new Set() };
  const waiting: Record<TaskKind, (() => void)[]> = { renderjob: [], event: [] };
  let ended = false;

  const payments = createBatcher<{ task: Task; uid: string | undefined }, true>({
    concurrency: 2,
    async run(paid) {
      const created = paid.filter(({ uid }) => uid !== undefined);
      // Losing this to a crash of the server loses nothing: the debt is paid again, without effect.
      await database.fast`
        with settled as (delete from outbox where id = any(${paid.map(({ task }) => task.id.toString())}::bigint[]))
        update jobs j set renderjob_uid = q.uid, renderjob_at = now()
        from unnest(${created.map(({ task }) => task.jobId)}::text[], ${created.map(({ uid }) => uid as string)}::text[]) as q(job, uid)
        where j.id = q.job and j.renderjob_uid is null`;
      return paid.map(() => true);
    },
  });

  async function pay<K extends TaskKind>(kind: K, task: Task, context: Contexts[K] | undefined) {
    try {
      const result = await lanes[kind].handle(task, context);
      await payments.submit({ task, uid: result?.renderJobUid });
      options.onPaid?.(kind, (Date.now() - task.createdAt.getTime()) / 1000);
    } catch (error) {
      const reason = describeError(error);
      logger.debug({ task: task.id.toString(), kind, jobId: task.jobId, attempts: task.attempts }, reason);
      // Of a debt just handed over nothing is written: it falls due by itself.
      if (task.attempts > 0) await putOff(task, reason).catch(() => {});
    }
  }

  async function putOff(task: Task, reason: string): Promise<void> {
    const pause = backoffMs(task.attempts);
    await database.fast`
        update outbox set due_at = now() + ${pause} * interval '1 millisecond', last_error = ${reason.replaceAll('\0', '').slice(0, 500)}
        where id = ${task.id}`;
  }

  function start<K extends TaskKind>(kind: K, task: Task, context?: Contexts[K]) {
    const work = pay(kind, task, context).finally(() => {
      running[kind].delete(work);
      waiting[kind].shift()?.();
    });
    running[kind].add(work);
  }

  function startPolled(kind: TaskKind, task: Task) {
    const work = pay(kind, task, undefined).finally(() => polled[kind].delete(work));
    polled[kind].add(work);
  }

  async function claim(kind: TaskKind, limit: number): Promise<Task[]> {
    const rows = await database.fast<
      { id: bigint; job_id: string; status: string | null; created_at: Date; attempts: number }[]
    >`
        update outbox set due_at = now() + ${leaseMs} * interval '1 millisecond', attempts = attempts + 1
        where id in (
          select id from outbox where kind = ${kind} and due_at <= now() order by due_at limit ${limit} for update skip locked
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

  async function poll(kind: TaskKind, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const room = lanes[kind].concurrency - polled[kind].size;
      let claimed = 0;
      if (room > 0) {
        try {
          const tasks = await claim(kind, room);
          claimed = tasks.length;
          for (const task of tasks) startPolled(kind, task);
        } catch (error) {
          logger.debug(`cannot poll the outbox: ${describeError(error)}`);
        }
      }
      const pause = delay(pollMs, undefined, { signal }).catch(() => {});
      // A full claim means that more may be due: go on as soon as there is room.
      if (claimed === room) await Promise.race([...polled[kind], pause]);
      else await pause;
    }
  }

  return {
    handOver(kind, task, context) {
      if (ended) return;
      const lane = lanes[kind];
      if (running[kind].size < lane.concurrency) return start(kind, { ...task, attempts: 0 }, context);
      // Beyond this the debts wait better in the table than in memory.
      if (waiting[kind].length < lane.concurrency * 8)
        waiting[kind].push(() => start(kind, { ...task, attempts: 0 }, context));
    },
    async run(signal) {
      await Promise.all([poll('renderjob', signal), poll('event', signal)]);
      ended = true;
      waiting.renderjob.length = 0;
      waiting.event.length = 0;
      await Promise.allSettled([running, polled].flatMap(({ renderjob, event }) => [...renderjob, ...event]));
    },
  };
}

function defaultBackoff(attempts: number): number {
  return Math.min(3_000, 250 * 2 ** Math.min(attempts, 6)) * (0.75 + Math.random() / 2);
}
