import postgres from 'postgres';
import { ApiError } from '#common/errors.ts';

/** A client whose int8 columns are bigint. */
export type Sql = postgres.Sql<{ bigint: bigint }>;
export type Transaction = postgres.TransactionSql<{ bigint: bigint }>;

export interface DatabaseOptions {
  readonly url: string;
  /** Connections for transactions that move money. Default 10. */
  readonly maxConnections?: number;
  /** The server ends a statement that takes longer, milliseconds. Default 4000. */
  readonly statementTimeoutMs?: number;
  /** A caller waits no longer than this for an answer, whatever became of the server. Default 5000. */
  readonly deadlineMs?: number;
}

export interface Database {
  /** Full durability: an answered commit survives the loss of the server. */
  readonly sql: Sql;
  /**
   * Two connections of their own for authentication, the rate limit and reads, so that they never queue behind
   * submits. Commits do not wait for the disk: nothing that must survive a crash of the server is written here.
   */
  readonly fast: Sql;
  /** Waits for the answer, but not longer than the deadline. @throws StorageError */
  within<T>(work: Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Postgres did not answer in time or could not be reached. Retryable; a write may have taken effect. */
export class StorageError extends ApiError {
  constructor(message: string, options?: ErrorOptions) {
    super('internal_error', message, options);
  }
}

/** Connects when first used and again after every loss; nothing here throws because the server is away. */
export function openDatabase(options: DatabaseOptions): Database {
  const { statementTimeoutMs = 4_000, deadlineMs = 5_000 } = options;
  const common = {
    types: { bigint: postgres.BigInt },
    connect_timeout: 3,
    // The default grows to 20 s, which would be 20 s of failing calls after the server is back.
    backoff: () => 0.1,
    max_lifetime: null,
    onnotice: () => {},
  } as const;
  const session = {
    application_name: 'semblance-control-plane',
    statement_timeout: statementTimeoutMs,
    lock_timeout: Math.round(statementTimeoutMs * 0.75),
    idle_in_transaction_session_timeout: statementTimeoutMs,
    TimeZone: 'UTC',
    jit: 'off',
  };
  const sql = postgres(options.url, {
    ...common,
    max: options.maxConnections ?? 10,
    connection: session,
  }) as unknown as Sql;
  const fast = postgres(options.url, {
    ...common,
    max: 2,
    connection: { ...session, synchronous_commit: 'off' },
  }) as unknown as Sql;
  return {
    sql,
    fast,
    within: (work) => withDeadline(work, deadlineMs),
    async close() {
      await Promise.all([sql.end({ timeout: 2 }), fast.end({ timeout: 2 })]);
    },
  };
}

/** @throws StorageError when the work is not done in time; the work itself is not stopped by it. */
export function withDeadline<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new StorageError(`the database did not answer within ${deadlineMs} ms`)),
      deadlineMs,
    );
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** SQLSTATE of an error the server answered; undefined when it did not answer at all. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'PostgresError') return undefined;
  return (error as Error & { code?: string }).code;
}

/** Name of the violated constraint, if the error is such a violation. */
export function violatedConstraint(error: unknown): string | undefined {
  return sqlState(error)?.startsWith('23')
    ? (error as Error & { constraint_name?: string }).constraint_name
    : undefined;
}

/** True for text that a Postgres text or jsonb value can hold: no NUL and no lone surrogate. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
