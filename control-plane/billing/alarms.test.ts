import { offerSessions, openSession, reserveSession } from '@semblance/testkit/control-plane/sessions';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { type SettableClock, settableClock } from '@semblance/testkit/control-plane/storage-clock';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setKey } from '../accounts/accounts.ts';
import { capsSet } from '../admin/cap-changes.ts';
import { readAlarm } from './balance-alarm.ts';
import { topUp } from './ledger.ts';

let db: TestDatabase;
let clock: SettableClock;
beforeAll(async () => {
  db = await testDatabase();
  clock = await settableClock(db.url);
  await offerSessions(db.sql);
});
afterAll(async () => {
  await clock.close();
  await db.close();
});

/** An account with an endpoint for alarms. */
async function account(usd: number) {
  const made = await db.account(usd);
  await db.sql`
    insert into webhook_endpoints (id, account_id, url, events)
    values (${`whe-${made.accountId}`}, ${made.accountId}, 'https://example.com/hook',
            '{balance.low,cap.reached_80}')`;
  const submit = (keyId = made.keyId) => db.submitter()({ ...made.submission(), keyId });
  return { ...made, submit };
}

const set = (accountId: string, caps: object) => db.sql.begin((tx) => capsSet(tx, { accountId, caps }));

async function owed(accountId: string) {
  const rows = await db.sql<{ event: string; data: Record<string, unknown> }[]>`
    select event, data from deliveries where account_id = ${accountId} order by ctid`;
  return rows.map(({ event, data }) => ({ event, ...data }));
}

const settle = (jobId: string, result: object | null) =>
  db.sql`select * from settle_job(${jobId}, null, ${result === null ? null : db.sql.json(result)},
    ${result === null ? 'processing_failed' : null}, ${result === null ? 'x' : null}, null, null)`;

const HOLD = 60_000n;

describe('balance.low', () => {
  test('is owed once when less is available than the alarm, and again only after it was not', async () => {
    const { accountId, submit } = await account(0.2);
    await set(accountId, { alarmBalanceMicros: 100_000n });
    const first = await submit();
    expect(await owed(accountId)).toEqual([]);
    await submit();
    const low = { event: 'balance.low', available_usd: 0.08, alarm_balance_usd: 0.1 };
    expect(await owed(accountId)).toEqual([low]);
    expect(await readAlarm(db.sql, accountId)).toMatchObject({ isLow: true, availableMicros: 80_000n });
    await submit();
    expect(await owed(accountId)).toEqual([low]);
    // Exactly the alarm is not below it.
    await db.sql.begin((tx) => topUp(tx, { accountId, amountMicros: 80_000n }));
    expect(await readAlarm(db.sql, accountId)).toMatchObject({ isLow: false, availableMicros: 100_000n });
    await settle(first.jobId, null);
    await submit();
    expect(await owed(accountId)).toEqual([low]);
    await submit();
    expect(await owed(accountId)).toEqual([low, { ...low, available_usd: 0.04 }]);
    expect(await db.faults(accountId)).toEqual([]);
  });

  test('is no crossing within a settlement, which gives back before it takes', async () => {
    const { accountId } = await account(1);
    const session = await openSession(db.sql, accountId, { minutes: 1 });
    const { availableMicros } = await readAlarm(db.sql, accountId);
    // All of the block is charged: after its release more than the alarm is available for a moment.
    await set(accountId, { alarmBalanceMicros: availableMicros + 1n });
    await db.sql`update sessions set state = 'connected', connection_id = 'c', connected_at = now(), streamed_ms = 60000
      where id = ${session}`;
    await db.sql`select * from settle_session(${session}, null, null)`;
    expect(await readAlarm(db.sql, accountId)).toMatchObject({ isLow: true, availableMicros });
    expect(await owed(accountId)).toEqual([]);
  });

  test('a refused submit owes nothing; of 8 submits at once one crosses', async () => {
    const { accountId, submit } = await account(0.5);
    await set(accountId, { alarmBalanceMicros: 490_000n });
    await Promise.allSettled(Array.from({ length: 32 }, () => submit()));
    expect(await owed(accountId)).toHaveLength(1);
    const low = await account(0.01);
    await set(low.accountId, { alarmBalanceMicros: 10_000n });
    await expect(low.submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    expect(await owed(low.accountId)).toEqual([]);
    // It is low already: the next fall is told, and none without an alarm.
    await set(low.accountId, { alarmBalanceMicros: 20_000n });
    expect(await readAlarm(db.sql, low.accountId)).toMatchObject({ isLow: true });
    await set(low.accountId, { alarmBalanceMicros: -1n });
    expect(await readAlarm(db.sql, low.accountId)).toEqual({
      ...{ alarmBalanceMicros: undefined, availableMicros: 10_000n, isLow: false },
    });
    expect(await owed(low.accountId)).toEqual([]);
  });
});

describe('cap.reached_80', () => {
  test('is owed once for a key or an account and a period, by jobs', async () => {
    const { accountId, keyId, submit } = await account(10);
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: 5n * HOLD });
    await set(accountId, { capMonthMicros: 10n * HOLD });
    for (let i = 0; i < 3; i++) await settle((await submit()).jobId, output(1500));
    expect(await owed(accountId)).toEqual([]);
    await submit();
    const ofKey = {
      event: 'cap.reached_80',
      ...{ key_id: keyId, period: 'day', cap_usd: 0.3, spent_usd: 0.18, held_usd: 0.06 },
      ends_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00Z$/),
    };
    expect(await owed(accountId)).toEqual([ofKey]);
    await submit();
    await expect(submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    expect(await owed(accountId)).toEqual([ofKey]);
    // Without the cap of the key, the account comes to its own; the key is told anew the next day.
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: -1n });
    for (let i = 0; i < 3; i++) await submit();
    expect(await owed(accountId)).toMatchObject([
      { key_id: keyId },
      { key_id: null, period: 'month', held_usd: 0.3 },
    ]);
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: 6n * HOLD });
    await clock.set(86_400);
    await submit();
    const [, , third] = await owed(accountId);
    expect(third).toMatchObject({ key_id: keyId, period: 'day', spent_usd: 0, held_usd: 0.36 });
  });

  test('is owed by sessions too, and to nobody who did not ask', async () => {
    const { accountId, keyId } = await account(10);
    await setKey(db.sql, keyId, { scopes: [], capDayMicros: 60_000n });
    expect(await reserveSession(db.sql, accountId, { keyId, minutes: 10 })).toMatchObject({
      outcome: 'reserved',
    });
    expect(await owed(accountId)).toMatchObject([{ event: 'cap.reached_80', key_id: keyId }]);
    const silent = await db.account(10);
    await setKey(db.sql, silent.keyId, { scopes: [], capDayMicros: HOLD });
    await db.submitter()({ ...silent.submission(), keyId: silent.keyId });
    expect(await owed(silent.accountId)).toEqual([]);
  });
});
