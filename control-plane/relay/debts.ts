import type { Database } from '../storage/database.ts';

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

/** Most debts that one statement claims. */
export const CLAIM = 32;

/** The table of debts. */
export interface Debts {
  /**
   * Claims the oldest due debts; `early`: and those that are not due yet, except the ones that this process has in
   * hand.
   */
  claim(kind: TaskKind, early: readonly bigint[] | undefined): Promise<Task[]>;
  /** Makes a debt due again after a pause, with the reason of its failure. */
  putOff(task: Task, pauseMs: number, reason: string): Promise<void>;
}

export interface DebtsOptions {
  readonly database: Database;
  /** Time after which a debt claimed by a dead process is free for others. */
  readonly leaseMs: number;
  /** Time after its commit at which a debt falls due for every process. */
  readonly ownMs: number;
}

export function createDebts({ database, leaseMs, ownMs }: DebtsOptions): Debts {
  return {
    async claim(kind: TaskKind, early: readonly bigint[] | undefined): Promise<Task[]> {
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
    },
    async putOff(task, pauseMs, reason) {
      await database.fast`
        update outbox set due_at = now() + ${pauseMs} * interval '1 millisecond', last_error = ${reason.replaceAll('\0', '').slice(0, 500)}
        where id = ${task.id}`;
    },
  };
}
