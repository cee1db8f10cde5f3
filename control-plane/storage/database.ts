import { openSql, type Sql } from './sql.ts';

export interface DatabaseOptions {
  readonly url: string;
  /** Connections for transactions that move money. Default 10. */
  readonly maxConnections?: number;
  /** Time after which the server ends a statement, in ms. Default 4000. */
  readonly statementTimeoutMs?: number;
  /** Time after which a statement without an answer is given up, whatever the server does, in ms. Default 5000. */
  readonly deadlineMs?: number;
  /** Longest wait for a connection, in ms. Default 3000. */
  readonly connectMs?: number;
}

export interface Database {
  /** Full durability: an answered commit survives the loss of the server. */
  readonly sql: Sql;
  /**
   * Separate connections for authentication, the rate limit and reads, so that they never queue behind submits.
   * Commits do not wait for the disk, so nothing that must survive a crash of the server is written here.
   */
  readonly fast: Sql;
  /**
   * Connections for statements over whole tables, which may take {@link SLOW_MS}: two for the two chores, and two
   * for people who have the books of an account recomputed. Others wait for their turn.
   */
  readonly slow: Sql;
  /** Time after which a statement of {@link sql} or {@link fast}, and everything that waits for it, is given up. */
  readonly deadlineMs: number;
  close(): Promise<void>;
}

/** Longest time of a statement on the slow connections. */
const SLOW_MS = 300_000;
/** Longest wait for one of these connections. */
const SLOW_TURN_MS = 60_000;

/** Connects on first use and again after every loss; nothing here throws because the server is away. */
export function openDatabase(options: DatabaseOptions): Database {
  const { statementTimeoutMs = 4_000, deadlineMs = 5_000 } = options;
  const settings = {
    application_name: 'semblance-control-plane',
    statement_timeout: statementTimeoutMs,
    lock_timeout: Math.round(statementTimeoutMs * 0.75),
    idle_in_transaction_session_timeout: statementTimeoutMs,
    TimeZone: 'UTC',
    jit: 'off',
  };
  const { url, connectMs, maxConnections = 10 } = options;
  const sql = openSql({ url, maxConnections, settings, deadlineMs, connectMs });
  const fast = openSql({
    url,
    maxConnections: 4,
    settings: { ...settings, synchronous_commit: 'off' },
    deadlineMs,
    connectMs,
  });
  const slow = openSql({
    url,
    maxConnections: 4,
    settings: {
      ...settings,
      application_name: 'semblance-control-plane-chores',
      statement_timeout: SLOW_MS,
      idle_in_transaction_session_timeout: SLOW_MS,
    },
    deadlineMs: SLOW_MS + 5_000,
    connectMs: SLOW_TURN_MS,
  });
  return {
    sql,
    fast,
    slow,
    deadlineMs,
    async close() {
      await Promise.all([sql.end(), fast.end(), slow.end()]);
    },
  };
}
