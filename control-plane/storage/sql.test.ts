import { setTimeout as delay } from 'node:timers/promises';
import { testPostgres } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSql, runScript, type Sql, StorageError, sqlState, violatedConstraint } from './sql.ts';

let pg: Awaited<ReturnType<typeof testPostgres>>;
let sql: Sql;
let control: Sql;
const open = (more: Partial<Parameters<typeof openSql>[0]> = {}) =>
  openSql({
    url: pg.url,
    maxConnections: 8,
    settings: { application_name: 'victim' },
    deadlineMs: 20_000,
    ...more,
  });

beforeAll(async () => {
  pg = await testPostgres();
  sql = open();
  control = open({ settings: { application_name: 'control' } });
});
afterAll(async () => {
  await sql.end();
  await control.end();
  await pg.close();
});

test('values keep their types both ways', async () => {
  const at = new Date('2026-01-02T03:04:05.678Z');
  const [row] = await sql`
    select ${9_007_199_254_740_993n}::bigint as big, ${['a"b', 'c\\d', '', 'e,f']}::text[] as texts, ${[1, 2]}::int[] as ints,
      ${['5', '6']}::bigint[]::text as bigs, ${Buffer.from([0, 255])}::bytea as bytes, ${at}::timestamptz as at,
      ${sql.json([{ a: null }])}::jsonb as json, ${null}::text as nothing, ${undefined}::text as missing, ${true}::boolean as yes`;
  expect(row).toEqual({
    big: 9_007_199_254_740_993n,
    texts: ['a"b', 'c\\d', '', 'e,f'],
    ints: [1, 2],
    bigs: '{5,6}',
    bytes: Buffer.from([0, 255]),
    at,
    json: [{ a: null }],
    nothing: null,
    missing: null,
    yes: true,
  });
});

test('a transaction that throws leaves nothing, and its connection is used again', async () => {
  const one = open({ maxConnections: 1 });
  await one`create table t (n int constraint positive check (n > 0))`;
  const [before] = await one`select pg_backend_pid() as pid`;
  await expect(
    one.begin(async (tx) => {
      await tx`insert into t values (1)`;
      throw new Error('no');
    }),
  ).rejects.toThrow('no');
  const refused = await one.begin((tx) => tx`insert into t values (${0})`).catch((error) => error);
  expect([sqlState(refused), violatedConstraint(refused)]).toEqual(['23514', 'positive']);
  expect(await one`select * from t`).toEqual([]);
  expect((await one`select pg_backend_pid() as pid`)[0]).toEqual(before);
  await one.end();
});

test('a connection whose server takes no writes any more is replaced, however it was used', async () => {
  await control`create table written (n int)`;
  for (const write of [
    (one: Sql) => one`insert into written values (1)`,
    (one: Sql) => one.begin((tx) => tx`insert into written values (2)`),
  ]) {
    const [{ name } = {}] = await control<{ name: string }[]>`select quote_ident(current_database()) as name`;
    const readOnly = (value: string) =>
      control.begin((tx) =>
        runScript(tx, `alter database ${name} set default_transaction_read_only = ${value}`),
      );
    // As after a failover: connections from before the address moved are to a standby.
    await readOnly('on');
    const one = open({ maxConnections: 1 });
    await one`select 1`;
    await readOnly('off');
    await expect(write(one)).rejects.toThrow(/not available|read-only/);
    await write(one);
    await one.end();
  }
  expect(await control`select n from written order by n`).toEqual([{ n: 1 }, { n: 2 }]);
});

test('whatever connections are cut, every statement has an answer and the next ones work', async () => {
  const finish = Date.now() + 3_000;
  let answered = 0;
  let failed = 0;
  // Runs for a while, and longer on a machine so slow that little happened by then.
  const going = () => Date.now() < finish || failed <= 10 || answered <= failed;
  const worker = async () => {
    while (going()) {
      const work =
        Math.random() < 0.5
          ? sql`select pg_sleep(0.002), ${'x'}::text`
          : sql.begin(async (tx) => {
              await tx`select 1`;
              await delay(Math.random() * 5);
              await tx`select 2`;
            });
      await work.then(
        () => answered++,
        (error) => {
          expect(error).toBeInstanceOf(StorageError);
          failed++;
        },
      );
    }
  };
  const saboteur = async () => {
    while (going()) {
      await delay(30);
      await control`
        select pg_terminate_backend(pid, 2000) from pg_stat_activity
        where application_name = 'victim' and datname = current_database() order by random() limit 2`;
    }
  };
  await Promise.all([...Array.from({ length: 16 }, worker), saboteur()]);
  // The last cut connections are gone; the pool needs a moment to notice.
  await delay(100);
  expect(failed).toBeGreaterThan(10);
  expect(answered).toBeGreaterThan(failed);
  expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
});

test('a statement that gets no answer is given up at the deadline, and its connection with it', async () => {
  const hasty = open({ maxConnections: 1, deadlineMs: 3_000 });
  await expect(hasty`select pg_sleep(60)`).rejects.toThrow(StorageError);
  expect(await hasty`select 1 as one`).toEqual([{ one: 1 }]);
  await hasty.end();
});

test('a server that is not there is a StorageError within the time to connect', async () => {
  const nowhere = open({ url: 'postgres://a:b@127.0.0.1:1/c' });
  await expect(nowhere`select 1`).rejects.toMatchObject({ code: 'internal_error', retryable: true });
  await nowhere.end();
});
