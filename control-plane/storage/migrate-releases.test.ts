import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { testPostgres } from '@semblance/testkit/servers/shared';
import postgres from 'postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type Migration,
  MigrationChangedError,
  migrate,
  migrateWhenReachable,
  readMigrations,
  SchemaTooNewError,
} from './migrate.ts';

const FOLDER = join(import.meta.dirname, '..', '..', 'packages', 'testkit', 'control-plane', 'releases');
let all: Migration[];
let pg: Awaited<ReturnType<typeof testPostgres>>;
let sql: postgres.Sql;

beforeAll(async () => {
  all = await readMigrations(FOLDER);
});
beforeEach(async () => {
  pg = await testPostgres();
  sql = postgres(pg.url, { max: 1, onnotice: () => {} });
});
afterEach(async () => {
  await sql.end();
  await pg.close();
});

/** Starts the release that brought this migration. */
const start = (release: number) => migrate(pg.url, all.slice(0, release));
const nameOf = (version: number) => all[version - 1]?.name ?? '';
const recorded = () =>
  sql`select version, compatible_from from schema_migrations order by version`.then((rows) =>
    rows.map((row) => [row.version, row.compatible_from]),
  );

describe('an older release', () => {
  test('starts again on what a newer one has added, and works on it', async () => {
    await start(1);
    await sql`insert into songs (title) values ('one')`;
    expect(await start(2)).toEqual({ applied: [nameOf(2)], ahead: [] });
    expect(await start(1)).toEqual({ applied: [], ahead: [nameOf(2)] });
    await sql`insert into songs (title) values ('two')`;
    expect(await start(2)).toEqual({ applied: [], ahead: [] });
    const names = await sql`select name from songs order by id`;
    expect(names.map(({ name }) => name)).toEqual(['one', 'two']);
    expect(await recorded()).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  test('starts on what a newer one has taken away only if it is one that no longer used it', async () => {
    await start(3);
    expect(await start(2)).toEqual({ applied: [], ahead: [nameOf(3)] });
    await expect(start(1)).rejects.toThrow(SchemaTooNewError);
    await expect(start(1)).rejects.toThrow(nameOf(3));
  });

  test('does not start on any other change, and names it', async () => {
    await start(4);
    for (const release of [2, 3]) await expect(start(release)).rejects.toThrow(nameOf(4));
    await expect(start(1)).rejects.toThrow(SchemaTooNewError);
    const waiting = migrateWhenReachable(
      pg.url,
      all.slice(0, 3),
      silentLogger(),
      new AbortController().signal,
      () => {},
    );
    await expect(waiting).rejects.toMatchObject({ code: 'schema_too_new', retryable: false });
    expect(await start(4)).toEqual({ applied: [], ahead: [] });
  });

  test('says in one line that the schema is a newer one', async () => {
    await start(3);
    const said: unknown[][] = [];
    const logger = Object.assign(silentLogger(), { info: (...words: unknown[]) => void said.push(words) });
    const signal = new AbortController().signal;
    await migrateWhenReachable(pg.url, all.slice(0, 2), logger, signal, () => {});
    expect(said).toEqual([[{ ahead: [nameOf(3)] }, expect.stringContaining('belongs to a newer release')]]);
  });

  test('still refuses a migration of its own that has another text', async () => {
    await start(2);
    const [first, second] = all as [Migration, Migration];
    const unmarked = { ...second, sql: second.sql.replace(/^.*\n/, '') };
    await expect(migrate(pg.url, [first, unmarked])).rejects.toThrow(MigrationChangedError);
  });
});

test('releases that start together, in whatever order, apply each migration once', async () => {
  for (let round = 0; round < 3; round++) {
    const starts = await Promise.all([2, 3, 2, 3, 2, 3].map(start));
    // Which of them applies which migration is chance.
    const applied = starts.flatMap((each) => each.applied).sort();
    expect(applied).toEqual(round === 0 ? all.slice(0, 3).map(({ name }) => name) : []);
  }
});

describe('a release that knew no marks', () => {
  /** The table and the records of that release. */
  const withoutColumn = () => sql`
    create table schema_migrations (
      version int primary key, name text not null, digest text not null,
      applied_at timestamptz not null default now())`;
  const record = async ({ version, name, sql: text }: Migration) => {
    const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex');
    await sql.unsafe(text);
    await sql`insert into schema_migrations (version, name, digest) values (${version}, ${name}, ${digest})`;
  };

  test('is followed: its records stay as they are', async () => {
    await withoutColumn();
    await record(all[0] as Migration);
    expect((await start(2)).applied).toEqual([nameOf(2)]);
    expect(await recorded()).toEqual([
      [1, null],
      [2, 1],
    ]);
  });

  test('may not be run behind, before it or after the column was made', async () => {
    await withoutColumn();
    for (const each of all.slice(0, 2)) await record(each);
    await expect(start(1)).rejects.toThrow(nameOf(2));
    await start(2);
    await record(all[2] as Migration);
    await expect(start(2)).rejects.toThrow(nameOf(3));
    expect((await start(4)).applied).toEqual([nameOf(4)]);
  });
});

test('a process that is killed in the middle of a migration leaves nothing, and nobody waits for it', async () => {
  await start(1);
  // Far longer than this test may take.
  const endless = {
    version: 2,
    name: '0002-endless.sql',
    sql: 'create table half_done (); select pg_sleep(600);',
  };
  const program = `
    const { migrate, readMigrations } = await import(${JSON.stringify(import.meta.resolve('./migrate.ts'))});
    const first = (await readMigrations(${JSON.stringify(FOLDER)})).slice(0, 1);
    await migrate(${JSON.stringify(pg.url)}, [...first, ${JSON.stringify(endless)}]);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' });
  const ended = once(child, 'exit');
  await expect
    .poll(
      async () =>
        sql`select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
      {
        timeout: 20_000,
      },
    )
    .toHaveLength(1);
  const others = Promise.all([start(1), start(2)]);
  child.kill('SIGKILL');
  expect(await ended).toEqual([null, 'SIGKILL']);
  const [, newer] = await others;
  expect(newer.applied).toEqual([nameOf(2)]);
  expect(await sql`select 1 from pg_class where relname = 'half_done'`).toHaveLength(0);
});

test('a start that has nothing to do waits for no backup', async () => {
  await start(2);
  await sql.begin(async (backup) => {
    await backup`lock table schema_migrations, songs in access share mode`;
    expect(await start(2)).toEqual({ applied: [], ahead: [] });
    expect(await start(1)).toEqual({ applied: [], ahead: [nameOf(2)] });
  });
});
