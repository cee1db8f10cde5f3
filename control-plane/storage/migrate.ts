import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import { createRefusals } from '#common/refusals.ts';
import { openSql, runScript, sqlState } from './sql.ts';

const FOLDER = join(import.meta.dirname, 'migrations');
/** One number for the whole database: whoever holds this advisory lock migrates. */
const LOCK = 7_362_652_636_266_223n;

/** No such user or no way in for it, and the wrong password. */
const NOT_LET_IN = ['28000', '28P01'];

/** The database was migrated by a newer release; running an older one on it could damage the books. */
export class SchemaTooNewError extends Error {
  override readonly name = 'SchemaTooNewError';
  readonly code = 'schema_too_new';
  readonly retryable = false;
}

/** A migration that was applied has been edited since. */
export class MigrationChangedError extends Error {
  override readonly name = 'MigrationChangedError';
  readonly code = 'migration_changed';
  readonly retryable = false;
}

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** The numbered files of a folder, `0001-name.sql`, in order and without gaps. */
export async function readMigrations(folder = FOLDER): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const version = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1]);
      if (version !== index + 1) throw new Error(`migration ${name} is misnamed or out of sequence`);
      return { version, name, sql: await readFile(join(folder, name), 'utf8') };
    }),
  );
}

/**
 * Brings the schema forward to what this release needs. Each migration runs in one transaction with its record, all
 * of them under an advisory lock, so that any number of processes may start at once.
 * @returns the names of the migrations applied by this call
 * @throws SchemaTooNewError, MigrationChangedError
 */
export async function migrate(url: string, migrations?: readonly Migration[]): Promise<string[]> {
  const wanted = migrations ?? (await readMigrations());
  const sql = openSql({ url, maxConnections: 1, settings: { TimeZone: 'UTC' }, deadlineMs: 0 });
  try {
    return await sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(${LOCK})`;
      await tx`
        create table if not exists schema_migrations (
          version int primary key,
          name text not null,
          digest text not null,
          applied_at timestamptz not null default now()
        )`;
      const applied = await tx<{ version: number; name: string; digest: string }[]>`
        select version, name, digest from schema_migrations order by version`;
      const newest = applied.at(-1);
      if (newest && newest.version > wanted.length) {
        throw new SchemaTooNewError(
          `the database is at schema ${newest.version} (${newest.name}), this release knows ${wanted.length}: run the newer release`,
        );
      }
      const done: string[] = [];
      for (const migration of wanted) {
        const digest = await digestOf(migration.sql);
        const before = applied[migration.version - 1];
        if (before) {
          if (before.digest !== digest)
            throw new MigrationChangedError(`${migration.name} was changed after it had been applied`);
          continue;
        }
        await runScript(tx, migration.sql);
        await tx`insert into schema_migrations (version, name, digest) values (${migration.version}, ${migration.name}, ${digest})`;
        done.push(migration.name);
      }
      return done;
    });
  } finally {
    await sql.end();
  }
}

/**
 * Migrates, trying again for as long as the server cannot be reached. Gives up only on what retrying cannot mend.
 * @param onFault told why it has not been done yet
 */
export async function migrateWhenReachable(
  url: string,
  logger: Logger,
  signal: AbortSignal,
  onFault: (why: string) => void = () => {},
): Promise<void> {
  const refusals = createRefusals('SEMBLANCE_POSTGRES_URL');
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    try {
      const applied = await migrate(url);
      if (applied.length > 0) logger.info({ applied }, 'migrated the database');
      return;
    } catch (error) {
      if (error instanceof SchemaTooNewError || error instanceof MigrationChangedError) throw error;
      const level = attempt % 20 === 0 ? 'warn' : 'debug';
      const why = describeError(error);
      logger[level](`cannot migrate the database yet: ${why}`);
      onFault(why);
      refusals.count(error, NOT_LET_IN.includes(sqlState(error) ?? ''));
      await delay(500, undefined, { signal });
    }
  }
}

async function digestOf(text: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Buffer.from(hash).toString('hex');
}
