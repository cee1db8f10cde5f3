import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBalance } from './balance.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

let number = 0;
const newId = () => `ses-${++number}`;
const reserve = async (accountId: string, amount: bigint, id = newId()) => {
  const [row] = await db.sql<{ outcome: string; available_micros: bigint }[]>`
    select * from reserve_block(${id}, ${accountId}, ${amount})`;
  return row?.outcome;
};
const release = async (id: string) =>
  (await db.sql<{ done: boolean }[]>`select release_block(${id}) as done`)[0]?.done;
const reserved = async (accountId: string) =>
  (
    await db.sql<{ reserved: bigint }[]>`
      select reserved_micros as reserved from account_balances where account_id = ${accountId}`
  )[0]?.reserved;
/** Returns the faults of the books without the one that these tests cause: their blocks belong to no session. */
async function faults(accountId: string) {
  const [open] = await db.sql<{ n: string }[]>`
    select count(*)::text as n from reservations where account_id = ${accountId} and released_at is null`;
  const found = await db.faults(accountId);
  const strays = found.filter(({ fault }) => fault === 'open blocks of no session');
  expect(strays.map((stray) => stray.found)).toEqual(open?.n === '0' ? [] : [open?.n]);
  return found.filter((each) => !strays.includes(each));
}

test('a block is set aside without a debit, counts in the admission of jobs, and is given free again', async () => {
  const account = await db.account(1);
  const { accountId } = account;
  const before = await readBalance(db.sql, accountId);
  expect(await reserve(accountId, 960_000n, 'ses-a')).toBe('reserved');
  const setAside = { reservedMicros: 960_000n, availableMicros: 40_000n };
  expect(await readBalance(db.sql, accountId)).toEqual({ ...before, ...setAside });
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  expect(await release('ses-a')).toBe(true);
  expect(await reserved(accountId)).toBe(0n);
  await db.submitter()(account.submission());
  expect(await faults(accountId)).toEqual([]);
});

test('a block is reserved once and released once, however often and however many together', async () => {
  const { accountId } = await db.account(1);
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => reserve(accountId, 10n, 'ses-once')));
  expect(outcomes.filter((outcome) => outcome === 'reserved')).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === 'already')).toHaveLength(19);
  expect(await reserved(accountId)).toBe(10n);
  const releases = await Promise.all(Array.from({ length: 20 }, () => release('ses-once')));
  expect(releases.filter(Boolean)).toHaveLength(1);
  expect(await reserved(accountId)).toBe(0n);
  // It stays what it was: the id cannot be used for another block.
  expect(await reserve(accountId, 10n, 'ses-once')).toBe('already');
  expect(await reserve(accountId, 11n, 'ses-once')).toBe('conflict');
  expect(await reserve((await db.account()).accountId, 10n, 'ses-once')).toBe('conflict');
  expect(await release('ses-unknown')).toBe(false);
  expect(await reserved(accountId)).toBe(0n);
  expect(await faults(accountId)).toEqual([]);
});

test('two accounts that ask for one id at the same time: one block, and a refusal in words', async () => {
  const [first, second] = [await db.account(1), await db.account(1)];
  for (const keep of [true, false]) {
    const id = newId();
    let other: Promise<string | undefined> | undefined;
    await db.sql
      .begin(async (tx) => {
        await tx`select reserve_block(${id}, ${first.accountId}, 10)`;
        other = reserve(second.accountId, 10n, id);
        await untilWaiting(id);
        if (!keep) throw new Error('taken back');
      })
      .catch((error) => expect(error.message).toBe('taken back'));
    expect(await other).toBe(keep ? 'conflict' : 'reserved');
  }
  expect([await reserved(first.accountId), await reserved(second.accountId)]).toEqual([10n, 10n]);
  for (const { accountId } of [first, second]) expect(await faults(accountId)).toEqual([]);
});

/** Waits until the reservation of that id in another process waits for a transaction. */
async function untilWaiting(id: string): Promise<void> {
  const waiting = () => db.sql`
    select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%reserve_block%'`;
  await expect.poll(waiting, { message: `${id} waits` }).toHaveLength(1);
}

test('50 reservations and submits at once never take more than there is', async () => {
  const account = await db.account(0.5);
  const { accountId } = account;
  const submit = db.submitter();
  const results = await Promise.all(
    Array.from({ length: 50 }, async (_, i) =>
      i % 2
        ? (await reserve(accountId, 60_000n)) === 'reserved'
        : submit(account.submission()).then(
            () => true,
            () => false,
          ),
    ),
  );
  expect(results.filter(Boolean)).toHaveLength(8);
  const { available } = await db.balances(accountId);
  expect(available - ((await reserved(accountId)) ?? 0n)).toBe(20_000n);
  expect(await faults(accountId)).toEqual([]);
});

test('the database itself refuses what is not covered, and blocks that change', async () => {
  const { accountId } = await db.account(1);
  const insert = (id: string, amount: bigint) =>
    db.sql`insert into reservations (id, account_id, amount_micros) values (${id}, ${accountId}, ${amount})`;
  await expect(insert('ses-much', 1_000_001n)).rejects.toMatchObject({
    constraint: 'reservation_needs_cover',
  });
  await expect(insert('ses-none', 0n)).rejects.toMatchObject({ code: '23514' });
  await insert('ses-kept', 5n);
  for (const change of [
    () => db.sql`update reservations set amount_micros = 6 where id = 'ses-kept'`,
    () => db.sql`update reservations set account_id = account_id where id = 'ses-kept'`,
    () => db.sql`delete from reservations where id = 'ses-kept'`,
    () => db.sql`truncate reservations`,
  ])
    await expect(change()).rejects.toMatchObject({ code: '23001' });
  await release('ses-kept');
  await expect(
    db.sql`update reservations set released_at = null where id = 'ses-kept'`,
  ).rejects.toMatchObject({ code: '23001' });
  expect(await reserve(accountId, 1_000_000n)).toBe('reserved');
  expect(await reserve(accountId, 1n)).toBe('insufficient_balance');
  expect(await faults(accountId)).toEqual([]);
});
