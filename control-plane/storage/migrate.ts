import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { createRefusals } from '@semblance/common/refusals';
import { openSql, runScript, sqlState, type Transaction } from './sql.ts';

const FOLDER = join(import.meta.dirname, 'migrations');
/** Number of the advisory lock that a migrating process holds. */
const LOCK = 7_362_652_636_266_223n;

/** SQLSTATEs of an unknown user, a refused one, and a wrong password. */
const NOT_LET_IN = ['28000', '28P01'];

/** A newer release migrated the database to a schema on which older ones could damage the books. */
export class SchemaTooNewError extends Error {
  override readonly name = 'SchemaTooNewError';
  readonly code = 'schema_too_new';
  readonly retryable = false;
}

/** An applied migration was edited afterwards. */
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

/** What a start found and did. */
export interface Migrated {
  /** Names of the migrations that it applied. */
  readonly applied: readonly string[];
  /** Names of migrations of newer releases, on whose schema this one may run. */
  readonly ahead: readonly string[];
}

const MARK = /^-- compatible-from: (\d{4})$/;

/**
 * Returns the oldest schema whose releases may run on a migration's result, from its first line, `--
 * compatible-from: 0012`. Without this line it is its own: no older release may.
 * @throws Error when the line is malformed
 */
export function compatibleFrom({ version, name, sql }: Migration): number {
  const [first = ''] = sql.split(/\r?\n/, 1);
  const from = Number(MARK.exec(first)?.[1] ?? version);
  const meant = /^\W*compatib/i.test(first);
  if (meant && !(from >= 1 && from < version))
    throw new Error(
      `${name} begins with "${first}": write "-- compatible-from: NNNN" with the number of an earlier migration`,
    );
  return from;
}

/** Reads the numbered files of a folder, `0001-name.sql`, in order and without gaps. */
export async function readMigrations(folder = FOLDER): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const version = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1]);
      if (version !== index + 1) throw new Error(`migration ${name} is misnamed or out of sequence`);
      const migration = { version, name, sql: await readFile(join(folder, name), 'utf8') };
      compatibleFrom(migration);
      return migration;
    }),
  );
}

type Applied = { version: number; name: string; digest: string; compatible_from: number | null };

/**
 * Migrates the schema to what this release needs. Each migration runs in one transaction with its record, all of
 * them under an advisory lock, so any number of processes, of any release, may start at once.
 * @throws SchemaTooNewError, MigrationChangedError
 */
export async function migrate(url: string, wanted: readonly Migration[]): Promise<Migrated> {
  const sql = openSql({ url, maxConnections: 1, settings: { TimeZone: 'UTC' }, deadlineMs: 0 });
  try {
    return await sql.begin(async (tx) => {
      // If this process is killed, the server must stop at once and release the lock, not at the end of its
      // statement.
      await tx`
        select set_config(name, '1s', true) from pg_settings where name = 'client_connection_check_interval'`;
      await tx`select pg_advisory_xact_lock(${LOCK})`;
      await prepareRecords(tx);
      const records = await tx<Applied[]>`
        select version, name, digest, compatible_from from schema_migrations order by version`;
      const ahead = records.slice(wanted.length);
      for (const record of ahead) refuseUnlessCompatible(record, wanted.length);
      const applied: string[] = [];
      for (const migration of wanted) {
        const { version, name } = migration;
        const digest = await digestOf(migration.sql);
        const before = records[version - 1];
        if (before) {
          if (before.digest !== digest)
            throw new MigrationChangedError(`${name} was changed after it had been applied`);
          continue;
        }
        await runScript(tx, migration.sql);
        await tx`
          insert into schema_migrations (version, name, digest, compatible_from)
          values (${version}, ${name}, ${digest}, ${compatibleFrom(migration)})`;
        applied.push(name);
      }
      return { applied, ahead: ahead.map(({ name }) => name) };
    });
  } finally {
    await sql.end();
  }
}

async function prepareRecords(tx: Transaction): Promise<void> {
  await tx`
    create table if not exists schema_migrations (
      version int primary key,
      name text not null,
      digest text not null,
      applied_at timestamptz not null default now()
    )`;
  // Checked first, because even adding an existing column waits for a backup that reads the table.
  const [column] = await tx`
    select 1 from pg_attribute
    where attrelid = 'schema_migrations'::regclass and attname = 'compatible_from' and not attisdropped`;
  // Null in records of a release without these marks.
  if (!column) await tx`alter table schema_migrations add column compatible_from int`;
}

/** @param known newest schema that this release knows */
function refuseUnlessCompatible({ version, name, compatible_from: from }: Applied, known: number): void {
  const oldest = from ?? version;
  if (oldest <= known) return;
  throw new SchemaTooNewError(
    `the database has ${name} of a newer release, and runs with releases of schema ${oldest} or later; this one is of ${known}: ` +
      'run the newer release again, or restore a backup from before it',
  );
}

/**
 * Migrates, and retries while the server cannot be reached. Gives up only on errors that retrying cannot fix.
 * @param onFault called with the reason for the delay
 */
export async function migrateWhenReachable(
  url: string,
  migrations: readonly Migration[],
  logger: Logger,
  signal: AbortSignal,
  onFault: (why: string) => void,
): Promise<void> {
  const refusals = createRefusals('SEMBLANCE_POSTGRES_URL');
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    try {
      const { applied, ahead } = await migrate(url, migrations);
      if (applied.length > 0) logger.info({ applied }, 'migrated the database');
      if (ahead.length > 0)
        logger.info({ ahead }, 'the schema belongs to a newer release that allows this one');
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
