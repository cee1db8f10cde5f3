import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runScript } from '../storage/sql.ts';
import { MAX_TOP_UP, topUp } from './ledger.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

test('entries can be neither changed nor removed', async () => {
  await db.account(1);
  const message = 'its rows are never changed';
  await expect(db.sql`update ledger_transfers set amount_micros = 1`).rejects.toThrow(message);
  await expect(db.sql`delete from ledger_transfers`).rejects.toThrow(message);
  await expect(db.sql`truncate ledger_transfers cascade`).rejects.toThrow(message);
  await expect(db.sql`update rates set minimum_micros = 0`).rejects.toThrow(message);
});

test('the database itself refuses a hold that is not covered, and a transfer between accounts that do not trade', async () => {
  const { accountId } = await db.account(1);
  const hold = (amount: bigint) => db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    values (${accountId}, 'hold', 'available', 'held', ${amount}, 'job')`;
  await expect(hold(1_000_001n)).rejects.toMatchObject({ constraint: 'hold_needs_cover' });
  await db.sql`update account_balances set reserved_micros = 500000 where account_id = ${accountId}`;
  await expect(hold(500_001n)).rejects.toMatchObject({ constraint: 'hold_needs_cover' });
  const odd = db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
    values (${accountId}, 'top_up', 'revenue', 'available', 1)`;
  await expect(odd).rejects.toMatchObject({ constraint: 'known_transfer' });
  expect(await db.balances(accountId)).toMatchObject({ available: 1_000_000n, held: 0n });
});

test('a hold is resolved once, whatever is written', async () => {
  const account = await db.account(1);
  const { jobId } = await db.submitter()(account.submission());
  await db.sql`select * from settle_job(${jobId}, null, ${db.sql.json(output())}, null, null, null, null)`;
  const [hold] = await db.sql<
    { id: bigint }[]
  >`select id from ledger_transfers where job_id = ${jobId} and kind = 'hold'`;
  for (const [kind, credit] of [
    ['release', 'available'],
    ['capture', 'revenue'],
    ['excess', 'available'],
  ]) {
    const again = db.sql`
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id)
      values (${account.accountId}, ${kind as string}, 'held', ${credit as string}, 0, ${hold?.id ?? 0n}, ${jobId})`;
    await expect(again, kind).rejects.toMatchObject({ constraint: 'ledger_hold_resolved_once' });
  }
});

test('a top-up under one reference is booked once, however many arrive together', async () => {
  const { accountId } = await db.account(0);
  const top = { accountId, amountMicros: 5_000_000n, reference: 'invoice 1' };
  const booked = await Promise.all(Array.from({ length: 30 }, () => topUp(db.sql, top)));
  expect(booked.filter(Boolean)).toHaveLength(1);
  expect((await db.balances(accountId)).available).toBe(5_000_000n);
  await expect(topUp(db.sql, { ...top, amountMicros: 1n })).rejects.toMatchObject({ code: 'invalid_input' });
  expect(
    await topUp(db.sql, {
      accountId: (await db.account(0)).accountId,
      amountMicros: 1n,
      reference: 'invoice 1',
    }),
  ).toBe(true);
});

test('amounts and names that cannot be booked are refused', async () => {
  const { accountId } = await db.account(0);
  for (const amountMicros of [0n, -1n, MAX_TOP_UP + 1n])
    await expect(topUp(db.sql, { accountId, amountMicros })).rejects.toMatchObject({ code: 'invalid_input' });
  for (const reference of ['', 'x'.repeat(201), 'a\0b', '\ud800'])
    await expect(topUp(db.sql, { accountId, amountMicros: 1n, reference })).rejects.toMatchObject({
      code: 'invalid_input',
    });
  for (const unknown of ['acct-none', 'a\0b'])
    await expect(topUp(db.sql, { accountId: unknown, amountMicros: 1n })).rejects.toMatchObject({
      code: 'not_found',
    });
  await db.sql.begin(async (tx) => {
    await tx`set local session_replication_role = 'replica'`;
    await tx`
      update account_balances set topped_up_micros = 9007199254740991, available_micros = 9007199254740991
      where account_id = ${accountId}`;
  });
  await expect(topUp(db.sql, { accountId, amountMicros: 1n })).rejects.toMatchObject({
    code: 'invalid_input',
  });
});

test('recomputing the books finds what was tampered with behind their back', async () => {
  const account = await db.account(1);
  const { jobId } = await db.submitter()(account.submission());
  expect(await db.faults(account.accountId)).toEqual([]);
  const tamper = async (statement: string) => {
    const faults: unknown[] = [];
    await db.sql
      .begin(async (tx) => {
        await runScript(tx, `set local session_replication_role = 'replica'; ${statement}`);
        for (const row of await tx`select fault from ledger_faults(${account.accountId})`)
          faults.push(row.fault);
        throw new Error('undo');
      })
      .catch((error) => {
        if (error.message !== 'undo') throw error;
      });
    return faults;
  };
  const where = `where account_id = '${account.accountId}'`;
  expect(
    await tamper(
      `update account_balances set available_micros = available_micros + 1, topped_up_micros = topped_up_micros + 1 ${where}`,
    ),
  ).toEqual(['available balance', 'topped up balance']);
  expect(await tamper(`delete from ledger_transfers ${where} and kind = 'hold'`)).toContain(
    'jobs without their hold',
  );
  expect(await tamper(`delete from jobs ${where}`)).toEqual(['holds without their job']);
  expect(
    await tamper(`update ledger_transfers set amount_micros = 70000 ${where} and kind = 'hold'`),
  ).toContain('held balance');
  expect(
    await tamper(
      `update jobs set status = 'failed', settled_at = now(), charged_micros = 0, error_code = 'x', error_message = 'x' where id = '${jobId}'`,
    ),
  ).toEqual([
    'hours of usage counted wrongly',
    'months of usage counted wrongly',
    'holds that outlive their job, or jobs their hold',
  ]);
  expect(
    await tamper(`insert into usage_months values ('2026-01-01', '${account.accountId}', 'avatar', 1, 0, 0)`),
  ).toEqual(['months of usage counted wrongly']);
  expect(
    await tamper(
      `insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, reference, refund_of, reason)
       values ('${account.accountId}', 'refund', 'revenue', 'available', 1, 'r', '${jobId}', 'r')`,
    ),
  ).toContain('charges given back more than they are');
  expect(await tamper(`update account_balances set reserved_micros = reserved_micros + 1 ${where}`)).toEqual([
    'reserved balance',
  ]);
  for (const wrong of [0, 2])
    expect(await tamper(`update account_balances set holds_open = ${wrong} ${where}`)).toEqual([
      'open holds',
    ]);
  expect(await db.faults(account.accountId)).toEqual([]);
});
