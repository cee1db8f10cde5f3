import { createHash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import pg from 'pg';

/** Postgres did not answer in time or could not be reached. Retryable; a write may have taken effect. */
export class StorageError extends ApiError {
  constructor(message: string, options?: ErrorOptions) {
    super('internal_error', message, options);
  }
}

/** There was no connection: nothing was sent, so nothing took effect. */
export class NoConnectionError extends StorageError {}

/** Text that becomes part of a statement instead of a parameter. It must be the same in every run of the statement. */
export class SqlText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Rows = readonly object[];

/**
 * Runs statements. Values in the template become parameters, except for SqlText; int8 is a bigint, bytea a Buffer, in
 * both directions.
 */
export interface Statements {
  <R extends Rows = Record<string, unknown>[]>(text: TemplateStringsArray, ...values: unknown[]): Promise<R>;
  /** Returns a value as the text of a json or jsonb parameter. */
  json(value: unknown): string;
}

export type Transaction = Statements;

export interface Sql extends Statements {
  /** Commits when the work resolves, rolls back when it throws. Lost with its connection. */
  begin<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  end(): Promise<void>;
  /** Returns the connections of the pool, the idle ones among them, and the statements that wait for one. */
  pressure(): { readonly open: number; readonly idle: number; readonly waiting: number };
}

export interface SqlOptions {
  readonly url: string;
  readonly maxConnections: number;
  /** Session settings, by name. */
  readonly settings: Readonly<Record<string, string | number>>;
  /** Longest wait for an answer; a connection without one is cut. 0: no limit. */
  readonly deadlineMs: number;
  /** Longest wait for a connection, new or returned by others. Default 3000. */
  readonly connectMs?: number | undefined;
}

const INT8 = 20;
const types = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8 ? BigInt : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
};

/**
 * Opens a pool of connections on first use, which reconnects after every loss. Statements are prepared once per
 * connection. A statement never waits longer than the deadline, whatever the server does.
 *
 * The client is `pg`: when a connection of `postgres` 3.4.9 is cut, it ends the process with an exception that
 * cannot be caught (writing to a socket that is null), or leaves queries without an answer for ever.
 */
export function openSql(options: SqlOptions): Sql {
  const { deadlineMs } = options;
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.maxConnections,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: options.connectMs ?? 3_000,
    keepAlive: true,
    options: Object.entries(options.settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
    types,
  });
  // A connection lost while idle is replaced on the next use; while in use its statement fails.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));

  async function borrow<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    let client: pg.PoolClient;
    try {
      client = await pool.connect();
    } catch (error) {
      const failure = storageError(error);
      throw failure instanceof StorageError
        ? new NoConnectionError(failure.message, { cause: error })
        : failure;
    }
    let broken = true;
    try {
      const result = await work(client);
      broken = false;
      return result;
    } catch (error) {
      const rolledBack = error instanceof RolledBack;
      const cause = rolledBack ? error.cause : error;
      // After an error that the server answered the connection is usable.
      broken = takesNoWrites(cause) || !(rolledBack || error instanceof pg.DatabaseError);
      throw rolledBack ? cause : storageError(error);
    } finally {
      client.release(broken);
    }
  }

  const bounded = <T>(work: Promise<T>) => (deadlineMs > 0 ? withDeadline(work, deadlineMs) : work);

  const statement = <R extends Rows>(text: TemplateStringsArray, ...values: unknown[]): Promise<R> =>
    borrow((client) => bounded(run<R>(client, text, values)));

  async function begin<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return borrow(async (client) => {
      const transaction = Object.assign(
        <R extends Rows>(text: TemplateStringsArray, ...values: unknown[]) =>
          bounded(run<R>(client, text, values)),
        { json },
      );
      await bounded(ask(client, 'begin'));
      let result: T;
      try {
        result = await work(transaction);
      } catch (error) {
        await bounded(ask(client, 'rollback'));
        throw new RolledBack('rolled back', { cause: error });
      }
      await bounded(ask(client, 'commit'));
      return result;
    });
  }

  const pressure = () => ({ open: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount });
  return Object.assign(statement, { json, begin, pressure, end: () => pool.end() });
}

/**
 * After a failover a connection may lead to a former primary that is a standby now; a new one leads to the primary.
 */
const takesNoWrites = (error: unknown) => sqlState(error) === '25006';

/** Carries the error of a transaction's work past the check of the connection. */
class RolledBack extends Error {}

/** Runs a script of several statements, without parameters, on a connection of its own. */
export async function runScript(transaction: Transaction, script: string): Promise<void> {
  const raw = Object.assign([script], { raw: [script] }) as unknown as TemplateStringsArray;
  scripts.add(raw);
  await transaction(raw);
}

const scripts = new WeakSet<TemplateStringsArray>();
const prepared = new WeakMap<
  TemplateStringsArray,
  { query: { name: string; text: string }; hasText: boolean }
>();

async function run<R extends Rows>(
  client: pg.PoolClient,
  strings: TemplateStringsArray,
  values: unknown[],
): Promise<R> {
  if (scripts.has(strings)) {
    await ask(client, strings[0] as string);
    return [] as unknown as R;
  }
  let statement = prepared.get(strings);
  if (!statement) {
    let parameters = 0;
    const text = strings.reduce((sum, part, i) => {
      const value = values[i - 1];
      return `${sum}${value instanceof SqlText ? value.text : `$${++parameters}`}${part}`;
    });
    const digest = createHash('sha256').update(text).digest('hex');
    statement = {
      query: { name: `s${digest.slice(0, 24)}`, text },
      hasText: parameters < values.length,
    };
    prepared.set(strings, statement);
  }
  const parameters = statement.hasText ? values.filter((value) => !(value instanceof SqlText)) : values;
  const result = await ask(client, { ...statement.query, values: parameters });
  return result.rows as unknown as R;
}

/**
 * Uses callbacks, because the promises that pg makes are moved to the old space and slow minor garbage collections
 * ten times.
 */
function ask(client: pg.PoolClient, query: string | pg.QueryConfig): Promise<pg.QueryResult> {
  return new Promise((resolve, reject) => {
    client.query(query as pg.QueryConfig, (error: Error | null, result) => {
      if (error) reject(error);
      else resolve(result);
    });
  });
}

function json(value: unknown): string {
  return JSON.stringify(value);
}

function storageError(error: unknown): unknown {
  if (error instanceof pg.DatabaseError) {
    // Class 57 and 08: the server is ending, starting, or cut the connection.
    return takesNoWrites(error) || /^(57|08)/.test(error.code ?? '')
      ? new StorageError('the database is not available', { cause: error })
      : error;
  }
  if (error instanceof ApiError) return error;
  return new StorageError('the database does not answer', { cause: error });
}

/** @throws StorageError when the work is not done in time; the work itself is not stopped. */
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

/** Returns the SQLSTATE of an error that the server answered; undefined when it did not answer. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** Returns the name of the violated constraint, if the error is such a violation. */
export function violatedConstraint(error: unknown): string | undefined {
  return sqlState(error)?.startsWith('23') ? (error as pg.DatabaseError).constraint : undefined;
}

/** Returns true for text that a Postgres text or jsonb value can contain: no NUL and no lone surrogate. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
