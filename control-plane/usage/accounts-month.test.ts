import { openSession } from '@semblance/testkit/control-plane/sessions';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adjustAccount } from '../billing/adjust.ts';
import { topUp } from '../billing/ledger.ts';
import { migrate, readMigrations } from '../storage/migrate.ts';
import { summarizeAccounts } from './accounts-month.ts';
import { summarizeUsage } from './usage.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** Ends jobs of an account, made and settled at these times; every third fails. Returns their ids. */
async function jobsOf(account: Awaited<ReturnType<TestDatabase['account']>>, times: readonly string[]) {
  const ids: string[] = [];
  for (const [i, at] of times.entries()) {
    const { jobId } = await db.submitter()(account.submission());
    await db.sql`update jobs set created_at = ${at}::timestamptz where id = ${jobId}`;
    const failed = i % 3 === 2;
    await db.sql`
      select * from settle_job(${jobId}, null, ${failed ? null : db.sql.json(output())}::jsonb, ${failed ? 'processing_failed' : null},
                               ${failed ? 'No.' : null}, ${failed ? 'render_failed' : null}, ${at}::timestamptz)`;
    ids.push(jobId);
  }
  return ids;
}

const ask = (month: string, after = '', limit = 0) => summarizeAccounts(db.sql, { month, after, limit });
const micros = (text: string) => BigInt(Date.parse(text)) * 1000n;

test('a month of all accounts is what each account’s own summary says, with what was booked in it', async () => {
  const [ada, grace, idle] = await Promise.all([db.account(1), db.account(2), db.account(3)]);
  const [job = ''] = await jobsOf(ada, [
    '2026-03-01T00:00:00Z',
    '2026-03-15T12:30:00Z',
    '2026-03-31T23:59:59.999Z',
    '2026-02-28T23:59:59.999Z',
    '2026-04-01T00:00:00Z',
  ]);
  await jobsOf(grace, ['2026-03-10T00:00:00Z']);
  const { jobId: open } = await db.submitter()(grace.submission());
  await db.sql`update jobs set created_at = '2026-03-11T00:00:00Z' where id = ${open}`;
  const session = await openSession(db.sql, grace.accountId);
  await db.sql`update sessions set created_at = '2026-03-12T00:00:00Z' where id = ${session}`;
  const at = new Date('2026-03-20T00:00:00Z');
  await topUp(db.sql, { accountId: idle.accountId, amountMicros: 7_000_000n, reference: 'r', at });

  const { accounts } = await ask('2026-03');
  const byId = new Map(accounts.map((row) => [row.accountId, row]));
  expect([...byId.keys()].sort()).toEqual([ada, grace, idle].map(({ accountId }) => accountId).sort());
  expect(byId.get(ada.accountId)).toEqual({
    accountId: ada.accountId,
    name: 'test',
    ...{ succeeded: 2n, failed: 1n, inFlight: 0n, spentMicros: 80_000n },
    ...{ toppedUpMicros: 0n, refundedMicros: 0n, correctedMicros: 0n, balanceMicros: 840_000n },
  });
  expect(byId.get(idle.accountId)).toMatchObject({ succeeded: 0n, toppedUpMicros: 7_000_000n });
  expect(byId.get(grace.accountId)).toMatchObject({ succeeded: 1n, inFlight: 2n });
  for (const { accountId } of [ada, grace, idle]) {
    const range = { fromMicros: micros('2026-03-01T00:00:00Z'), toMicros: micros('2026-04-01T00:00:00Z') };
    const { succeeded, failed, inFlight, spentMicros } = await summarizeUsage(db.sql, accountId, range);
    expect(byId.get(accountId)).toMatchObject({ succeeded, failed, inFlight, spentMicros });
    expect(await db.faults(accountId)).toEqual([]);
  }

  const adjust = (amountMicros: bigint, reference: string, refundOf?: string) =>
    db.sql.begin((tx) =>
      adjustAccount(tx, {
        ...{ accountId: ada.accountId, amountMicros, reference, refundOf, reason: 'x', intoDebt: false },
      }),
    );
  await adjust(10_000n, 'a', job);
  await adjust(-200_000n, 'b');
  const { month, accounts: now } = await ask('');
  expect(month).toBe(new Date().toISOString().slice(0, 7));
  expect(now.find(({ accountId }) => accountId === ada.accountId)).toMatchObject({
    ...{ refundedMicros: 10_000n, correctedMicros: -200_000n, spentMicros: 0n, toppedUpMicros: 1_000_000n },
  });
});

test('pages follow one another in the order of ids', async () => {
  const all = (await ask('')).accounts.map(({ accountId }) => accountId);
  expect(all.length).toBeGreaterThan(2);
  const paged: string[] = [];
  for (let after = ''; ; ) {
    const { accounts } = await ask('', after, 2);
    paged.push(...accounts.map(({ accountId }) => accountId));
    if (accounts.length < 2) break;
    after = paged.at(-1) ?? '';
  }
  expect(paged).toEqual(all);
});

test.each(['2026', '2026-13', '2026-1', '26-01', "2026-01'; --", '0000-01'])(
  'a month that is none is refused: %s',
  async (month) => {
    await expect(ask(month)).rejects.toMatchObject({ code: 'invalid_input' });
  },
);

test('a limit out of bounds and an account that none can be are refused', async () => {
  await expect(ask('2026-01', '', 10_001)).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(ask('2026-01', '', -1)).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(ask('2026-01', 'a\0')).rejects.toMatchObject({ code: 'invalid_input' });
});

test('months of before the table are summed from the hours', async () => {
  const all = await readMigrations();
  const before = all.find(({ name }) => name.endsWith('-answers.sql'));
  const old = await testDatabase((before?.version ?? 0) - 1);
  try {
    await old.sql`insert into accounts (id, name) values ('acct-old', 'Old')`;
    await old.sql`insert into account_balances (account_id) values ('acct-old')`;
    await old.sql`
      insert into usage_hours (account_id, hour, capability, succeeded, failed, spent_micros)
      values ('acct-old', '2026-03-31T23:00:00Z', 'face-swap', 3, 1, 50),
             ('acct-old', '2026-03-01T00:00:00Z', 'avatar', 1, 0, 7), ('acct-old', '2026-04-01T00:00:00Z', 'avatar', 1, 0, 9)`;
    await migrate(old.url, all);
    expect((await summarizeAccounts(old.sql, { month: '2026-03', after: '', limit: 0 })).accounts).toEqual([
      expect.objectContaining({ accountId: 'acct-old', succeeded: 4n, failed: 1n, spentMicros: 57n }),
    ]);
  } finally {
    await old.close();
  }
});
