import { openSession } from '@semblance/testkit/control-plane/sessions';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Adjustment, adjustAccount } from './adjust.ts';
import { auditBooks } from './audit-books.ts';
import { readBalance } from './balance.ts';
import { topUp } from './ledger.ts';

let db: TestDatabase;
const accounts: string[] = [];
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

// Whatever was tried, the books agree: by account, and by the round over all.
afterEach(async () => {
  for (const accountId of accounts.splice(0)) expect(await db.faults(accountId)).toEqual([]);
  expect((await auditBooks(db.sql, new AbortController().signal)).faults).toEqual([]);
});

async function makeAccount(usd = 10) {
  const account = await db.account(usd);
  accounts.push(account.accountId);
  return account;
}

const adjust = (asked: Partial<Adjustment> & Pick<Adjustment, 'accountId'>) =>
  db.sql.begin((tx) =>
    adjustAccount(tx, {
      ...{ amountMicros: 1_000_000n, reference: 'note 1', reason: 'Agreed by telephone.', intoDebt: false },
      ...asked,
    }),
  );

/** Charges a job of the account with 0.04 USD. */
async function chargedJob(account: Awaited<ReturnType<typeof makeAccount>>, at: string | null = null) {
  const { jobId } = await db.submitter()(account.submission());
  await db.sql`select * from settle_job(${jobId}, null, ${db.sql.json(output())}, null, null, null, ${at}::timestamptz)`;
  return jobId;
}

test('a charge is given back once under one reference, in parts, and never beyond itself', async () => {
  const account = await makeAccount();
  const { accountId } = account;
  const refundOf = await chargedJob(account);
  const refund = (amountMicros: bigint, reference: string) =>
    adjust({ accountId, refundOf, amountMicros, reference });

  const together = await Promise.all(Array.from({ length: 12 }, () => refund(30_000n, 'r1')));
  expect(together.filter(({ booked }) => booked)).toHaveLength(1);
  expect(together[0]).toMatchObject({ kind: 'refund' });
  expect(await db.balances(accountId)).toEqual({
    ...{ available: 9_990_000n, held: 0n, spent: 10_000n, topped_up: 10_000_000n },
  });
  await expect(refund(10_001n, 'r2')).rejects.toMatchObject({
    code: 'invalid_input',
    message: expect.stringContaining('was charged 0.04 USD, of which 0.03 USD were given back'),
  });
  await refund(10_000n, 'r2');
  await expect(refund(1n, 'r3')).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(refund(20_000n, 'r1')).rejects.toMatchObject({
    message: 'This reference was booked with other content before.',
  });
  expect((await readBalance(db.sql, accountId)).totalSpentMicros).toBe(0n);
});

test('different refunds of one charge that come together exceed it never', async () => {
  const account = await makeAccount();
  const refundOf = await chargedJob(account);
  const many = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) =>
      adjust({ accountId: account.accountId, refundOf, amountMicros: 15_000n, reference: `r${i}` }),
    ),
  );
  expect(many.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
});

test('a refund lessens the spend of the day of its charge, not of the day on which it is booked', async () => {
  const account = await makeAccount();
  const { accountId } = account;
  const refundOf = await chargedJob(account, '2026-01-15T12:00:00Z');
  await adjust({ accountId, refundOf, amountMicros: 40_000n });
  const days = await db.sql`select day::text, spent_micros from spend_days where account_id = ${accountId}`;
  expect([...days]).toEqual([{ day: '2026-01-15', spent_micros: 0n }]);
});

test('a session is given back as a job is; what was not charged is not', async () => {
  const account = await makeAccount();
  const { accountId } = account;
  const session = await openSession(db.sql, accountId);
  await expect(adjust({ accountId, refundOf: session })).rejects.toMatchObject({ code: 'not_found' });
  await db.sql`
    update sessions set state = 'connected', connection_id = 'c', connected_at = now(), report_timeout_seconds = 15,
                        streamed_ms = 30000 where id = ${session}`;
  await db.sql`select settle_session(${session}, null, null)`;
  const { spent } = await db.balances(accountId);
  expect(spent).toBeGreaterThan(0n);
  await adjust({ accountId, refundOf: session, amountMicros: spent });
  expect((await db.balances(accountId)).spent).toBe(0n);

  const { jobId } = await db.submitter()(account.submission());
  await expect(adjust({ accountId, refundOf: jobId, reference: 'r' })).rejects.toMatchObject({
    code: 'not_found',
  });
  await db.sql`select * from settle_job(${jobId}, null, null, 'processing_failed', 'No.', 'render_failed', null)`;
  const other = await makeAccount();
  for (const asked of [
    { accountId, refundOf: jobId },
    { accountId: other.accountId, refundOf: session },
    { accountId, refundOf: 'job-none' },
    { accountId, refundOf: 'a\0b' },
  ])
    await expect(adjust({ ...asked, reference: 'r' })).rejects.toMatchObject({ code: 'not_found' });
});

test('a correction adds or takes away; below zero only where that is said', async () => {
  const { accountId } = await makeAccount(100);
  await adjust({ accountId, amountMicros: -90_000_000n });
  expect(await db.balances(accountId)).toMatchObject({ available: 10_000_000n, topped_up: 10_000_000n });
  const [entry] = await db.sql`
    select kind, debit, credit, reason, reference from ledger_transfers
    where account_id = ${accountId} order by id desc limit 1`;
  expect(entry).toEqual({
    kind: 'correction',
    debit: 'available',
    credit: 'funding',
    reason: 'Agreed by telephone.',
    reference: 'note 1',
  });
  await adjust({ accountId, amountMicros: 500_000n, reference: 'note 2' });
  expect((await db.balances(accountId)).available).toBe(10_500_000n);
});

test('an account that has spent what a top-up was too large by owes it, where that is said', async () => {
  const account = await makeAccount(0.06);
  const { accountId } = account;
  await chargedJob(account);
  await expect(adjust({ accountId, amountMicros: -50_000n })).rejects.toMatchObject({
    code: 'invalid_input',
    message: expect.stringContaining('0.02 USD are available'),
  });
  await adjust({ accountId, amountMicros: -50_000n, intoDebt: true });
  expect((await db.balances(accountId)).available).toBe(-30_000n);
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  // More than was ever topped up is no correction of a top-up.
  await expect(
    adjust({ accountId, amountMicros: -1_000_000n, reference: 'note 2', intoDebt: true }),
  ).rejects.toMatchObject({ code: 'invalid_input' });
});

test('what sessions have reserved is not taken by a correction', async () => {
  const { accountId } = await makeAccount(1);
  await openSession(db.sql, accountId);
  await expect(adjust({ accountId, amountMicros: -1_000_000n })).rejects.toMatchObject({
    message: expect.stringContaining('0.94 USD are available'),
  });
});

test('top-ups and adjustments share their references', async () => {
  const { accountId } = await makeAccount();
  await topUp(db.sql, { accountId, amountMicros: 1_000_000n, reference: 'x' });
  await expect(adjust({ accountId, reference: 'x' })).rejects.toMatchObject({ code: 'invalid_input' });
  await adjust({ accountId, reference: 'y' });
  await expect(topUp(db.sql, { accountId, amountMicros: 1_000_000n, reference: 'y' })).rejects.toMatchObject({
    message: 'This reference was booked as a correction before.',
  });
});

test.each<[string, Partial<Adjustment>, string]>([
  ['nothing', { amountMicros: 0n }, 'invalid_input'],
  ['beyond all measure', { amountMicros: 2n ** 62n }, 'invalid_input'],
  ['below zero of a charge', { amountMicros: -1n, refundOf: 'job-x' }, 'invalid_input'],
  ['without a reason', { reason: ' ' }, 'invalid_input'],
  ['with a reason that never ends', { reason: 'x'.repeat(501) }, 'invalid_input'],
  ['with a reason that moves the cursor', { reason: 'a\u001b[2J' }, 'invalid_input'],
  ['without a reference', { reference: '' }, 'invalid_input'],
  ['with a reference of two lines', { reference: 'a\nb' }, 'invalid_input'],
  ['of no account', { accountId: 'acct-none' }, 'not_found'],
  ['of an account that none can be', { accountId: 'a\0' }, 'not_found'],
])('an adjustment is refused: %s', async (_what, asked, code) => {
  const { accountId } = await makeAccount();
  await expect(adjust({ accountId, ...asked })).rejects.toMatchObject({ code });
  expect(await db.balances(accountId)).toMatchObject({ available: 10_000_000n, topped_up: 10_000_000n });
});

test('the database itself refuses a refund beyond its charge, and an adjustment without a reason', async () => {
  const account = await makeAccount();
  const job = await chargedJob(account);
  const insert = (kind: string, amount: bigint, refundOf: string | null, reason: string | null) => db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, reference, refund_of, reason)
    values (${account.accountId}, ${kind}, ${kind === 'refund' ? 'revenue' : 'funding'}, 'available', ${amount}, 'z',
            ${refundOf}, ${reason})`;
  await expect(insert('refund', 40_001n, job, 'r')).rejects.toMatchObject({
    constraint: 'refund_within_charge',
  });
  await expect(insert('refund', 1n, 'job-none', 'r')).rejects.toMatchObject({
    constraint: 'refund_within_charge',
  });
  await expect(insert('correction', 1n, job, 'r')).rejects.toMatchObject({
    constraint: 'refund_names_its_charge',
  });
  await expect(insert('correction', 1n, null, null)).rejects.toMatchObject({
    constraint: 'adjustment_is_explained',
  });
});
