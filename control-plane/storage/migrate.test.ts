import { silentLogger } from '@semblance/common/logging';
import { testPostgres } from '@semblance/testkit/servers/shared';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  compatibleFrom,
  MigrationChangedError,
  migrate,
  migrateWhenReachable,
  readMigrations,
  SchemaTooNewError,
} from './migrate.ts';

let pg: Awaited<ReturnType<typeof testPostgres>>;
let sql: postgres.Sql;

beforeAll(async () => {
  pg = await testPostgres();
  sql = postgres(pg.url, { max: 1, onnotice: () => {} });
});
afterAll(async () => {
  await sql.end();
  await pg.close();
});

test('processes that start together apply each migration once', async () => {
  const wanted = await readMigrations();
  const applied = (await Promise.all(Array.from({ length: 5 }, () => migrate(pg.url, wanted)))).flatMap(
    (each) => each.applied,
  );
  expect(applied).toEqual(wanted.map(({ name }) => name));
  const rows = await sql`select version from schema_migrations order by version`;
  expect(rows.map(({ version }) => version)).toEqual(wanted.map(({ version }) => version));
});

test('a migration that fails leaves nothing, and the next start goes on from there', async () => {
  const wanted = await readMigrations();
  const version = wanted.length + 1;
  const broken = { version, name: 'broken.sql', sql: 'create table half_done (); select 1 / 0;' };
  await expect(migrate(pg.url, [...wanted, broken])).rejects.toThrow('division by zero');
  expect(await sql`select 1 from pg_class where relname = 'half_done'`).toHaveLength(0);
  const mended = { version, name: 'mended.sql', sql: 'create table half_done ();' };
  expect((await migrate(pg.url, [...wanted, mended])).applied).toEqual(['mended.sql']);
});

test('a schema newer than the release is refused, at once and for good', async () => {
  const wanted = await readMigrations();
  await expect(migrate(pg.url, wanted)).rejects.toThrow(SchemaTooNewError);
  const waiting = migrateWhenReachable(
    pg.url,
    wanted,
    silentLogger(),
    new AbortController().signal,
    () => {},
  );
  await expect(waiting).rejects.toMatchObject({ code: 'schema_too_new', retryable: false });
});

test('what keeps it from the database is said, in the words of the server', async () => {
  const wrong = new URL(pg.url);
  wrong.password = 'wrong';
  const absent = new URL(pg.url);
  absent.pathname = '/absent';
  for (const [url, why] of [
    [wrong, /password authentication failed for user/],
    [absent, /database "absent" does not exist/],
  ] as const) {
    const stop = new AbortController();
    const faults: string[] = [];
    const told = (fault: string) => {
      faults.push(fault);
      stop.abort(new Error('enough'));
    };
    await expect(migrateWhenReachable(url.href, [], silentLogger(), stop.signal, told)).rejects.toThrow();
    expect(faults).toEqual([expect.stringMatching(why)]);
  }
});

test('a migration edited after it was applied is refused', async () => {
  const wanted = await readMigrations();
  const edited = [...wanted, { version: wanted.length + 1, name: 'mended.sql', sql: 'select 2' }];
  await expect(migrate(pg.url, edited)).rejects.toThrow(MigrationChangedError);
});

describe('the first line of a migration', () => {
  const from = (first: string) =>
    compatibleFrom({ version: 17, name: '0017-x.sql', sql: `${first}\nselect 1;` });

  test.each([
    ['-- compatible-from: 0016', 16],
    ['-- compatible-from: 0003', 3],
    ['-- What it is about.', 17],
    ['create table a ();', 17],
  ])('%s', (first, expected) => {
    expect(from(first)).toBe(expected);
  });

  test.each([
    '-- compatible-from: 16',
    '-- compatible-from: 0017',
    '-- compatible-from: 0018',
    '-- compatible-from: 0000',
    '-- compatible-from:0016',
    '--compatible-from: 0016',
    '-- Compatible with 0016',
  ])('is refused: %s', (first) => {
    expect(() => from(first)).toThrow('0017-x.sql begins with');
  });

  test('of the migrations of 0.1.0 is no mark', async () => {
    const frozen = (await readMigrations()).slice(0, 12);
    expect(frozen.map(compatibleFrom)).toEqual(frozen.map(({ version }) => version));
  });
});
