import { openSession } from '@semblance/testkit/control-plane/sessions';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { auditBooks } from './audit-books.ts';

let db: TestDatabase;
const { signal } = new AbortController();

beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

test('books that agree have no faults; whatever is changed behind their back is one', async () => {
  expect(await auditBooks(db.sql, signal)).toEqual({ accounts: 0, belowZero: 0, faults: [] });
  // More than one batch of accounts.
  for (let i = 0; i < 250; i++)
    await db.sql`with a as (insert into accounts (id, name) values (${`acct-${i}`}, 'x') returning id)
    insert into account_balances (account_id) select id from a`;
  const account = await db.account(1);
  const submit = db.submitter();
  const { jobId } = await submit(account.submission());
  await submit(account.submission());
  // Twenty images for a job with a hold for one and a half: the rest is collected, and the balance falls below
  // zero.
  await db.sql`select settle_job(${jobId}, null, ${db.sql.json(output(100_000))}::jsonb, null, null, null, null)`;
  await openSession(db.sql, (await db.account(1)).accountId);
  expect(await auditBooks(db.sql, signal)).toEqual({ accounts: 252, belowZero: 1, faults: [] });

  await db.sql`alter table account_balances disable trigger all`;
  await db.sql`update account_balances set available_micros = available_micros + 1, held_micros = held_micros - 1, reserved_micros = 7, holds_open = 0
    where account_id = ${account.accountId}`;
  const { faults } = await auditBooks(db.sql, signal);
  expect(faults).toEqual([
    {
      accountId: account.accountId,
      expected: '{-3060000,60000,4000000,1000000,60000,0,1}',
      found: '{-3059999,59999,4000000,1000000,60000,7,0}',
    },
  ]);
});
