import { setTimeout as delay } from 'node:timers/promises';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createReceipts } from './receipts.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

test('receipts that come in any order never wait in a circle with a batch of settlements', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const ids = await Promise.all(
    Array.from({ length: 8 }, async () => (await submit(account.submission())).jobId),
  );
  ids.sort();
  const receipts = createReceipts({ database: db.database, lingerMs: 1 });
  let recorded: Promise<unknown> = Promise.resolve();
  await db.sql.begin(async (tx) => {
    // As settle_jobs locks them, stopped between the first and the rest.
    await tx`select 1 from jobs where id = ${ids[0]} for no key update`;
    recorded = Promise.all(
      ids
        .toReversed()
        .map((jobId, n) => receipts.record({ id: BigInt(n), jobId, renderJobUid: `uid-${jobId}` })),
    );
    recorded.catch(() => {});
    await delay(300);
    await tx`select 1 from jobs where id = any(${ids}::text[]) order by id for no key update`;
  });
  await recorded;
  const rows = await db.sql<{ id: string; renderjob_uid: string }[]>`
    select id, renderjob_uid from jobs where id = any(${ids}::text[])`;
  expect(rows.filter(({ id, renderjob_uid: uid }) => uid === `uid-${id}`)).toHaveLength(ids.length);
});
