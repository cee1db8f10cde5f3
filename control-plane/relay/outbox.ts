import { backoffMs, jittered } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { Database } from '../storage/database.ts';
import { createDebts, type Task, type TaskKind } from './debts.ts';
import { createLane } from './lane.ts';
import { createReceipts } from './receipts.ts';

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

/** Time after its commit at which a debt falls due for every process: the default of `outbox.due_at`. */
const OWN_MS = 2_000;

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
  const debts = createDebts({ database, leaseMs, ownMs });
  let ended = false;

  /** Resolves when there is room for another; `recorded` may take longer. Neither ever rejects. */
  async function pay(kind: TaskKind, task: Task, context: unknown): Promise<{ recorded: Promise<void> }> {
    const failed = async (error: unknown) => {
      const reason = describeError(error);
      logger.debug({ task: task.id.toString(), kind, jobId: task.jobId, attempts: task.attempts }, reason);
      // A debt that was just handed over needs no write: it falls due by itself.
      if (task.attempts > 0) await debts.putOff(task, backoffMs(task.attempts), reason).catch(() => {});
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

  const openLane = (kind: TaskKind) =>
    createLane({
      concurrency: lanes[kind].concurrency,
      claim: (early) => debts.claim(kind, early),
      pay: (task, context) => pay(kind, task, context),
      leaseMs,
      pollMs,
      logger,
    });
  const open = { renderjob: openLane('renderjob'), event: openLane('event') };
  return {
    handOver(kind, task, context) {
      if (!ended) open[kind].handOver({ ...task, attempts: 0 }, context);
    },
    async run(signal) {
      await Promise.all([open.renderjob.poll(signal), open.event.poll(signal)]);
      ended = true;
      await Promise.all([open.renderjob.end(), open.event.end()]);
    },
  };
}

function defaultBackoff(attempts: number): number {
  return jittered(backoffMs(attempts, 250, 3_000));
}
