import { openSession } from '@semblance/testkit/control-plane/sessions';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { migrate, readMigrations } from './migrate.ts';

/** 0023: sessions keep the silence that ends them. Those that stream while it is applied stream on. */

const NAME = '0023-when-clocks-and-settings-go-back.sql';

let all: Awaited<ReturnType<typeof readMigrations>>;
let db: TestDatabase;
beforeEach(async () => {
  all = await readMigrations();
  db = await testDatabase(22);
});
afterEach(() => db.close());

const upgrade = () => migrate(db.url, all.slice(0, 23));

/** As the release before connects one. */
async function streaming(accountId: string): Promise<string> {
  const id = await openSession(db.sql, accountId);
  await db.sql`
    update sessions set state = 'connected', connection_id = 'one', connected_at = now(), reported_at = now() where id = ${id}`;
  return id;
}
const silentFor = (id: string, seconds: number) =>
  db.sql`update sessions set reported_at = now() - ${seconds} * interval '1 second' where id = ${id}`;
const expire = async () =>
  (await db.sql<{ session: string }[]>`select session from expire_sessions(3600, null)`).map(
    ({ session }) => session,
  );

test('a session that the release before connected has the silence that is set, and that release runs on', async () => {
  const { accountId } = await db.account(10);
  const [going, silent] = [await streaming(accountId), await streaming(accountId)];
  expect((await upgrade()).applied).toEqual([NAME]);
  expect(await migrate(db.url, all.slice(0, 22))).toEqual({ applied: [], ahead: [NAME] });
  const later = await streaming(accountId);
  for (const id of [going, later]) await silentFor(id, 10);
  await silentFor(silent, 20);
  expect(await expire()).toEqual([silent]);
  expect(await db.faults(accountId)).toEqual([]);
});

test('sessions open and end while a backup keeps it waiting', async () => {
  const { accountId } = await db.account(10);
  let applying: ReturnType<typeof upgrade> | undefined;
  await db.sql.begin(async (backup) => {
    await backup`lock table sessions in access share mode`;
    applying = upgrade();
    const waits = async () =>
      db.sql`
        select 1 from pg_locks l join pg_stat_activity a using (pid)
        where not l.granted and a.datname = current_database()`;
    await expect.poll(waits, { timeout: 20_000 }).toHaveLength(1);
    for (let n = 0; n < 3; n++) {
      const id = await streaming(accountId);
      await db.sql`select settle_session(${id}, 'cancelled', null)`;
    }
  });
  expect((await applying)?.applied).toEqual([NAME]);
  expect(await db.faults(accountId)).toEqual([]);
});
