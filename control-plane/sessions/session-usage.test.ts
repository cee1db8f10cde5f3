import {
  openSession,
  reserveSession,
  type SessionRig,
  sessionRig,
  told,
} from '@semblance/testkit/control-plane/sessions';
import { output } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBalance } from '../billing/balance.ts';
import { readUsage, summarizeUsage } from '../usage/usage.ts';
import { createReports } from './reports.ts';

let db: SessionRig['db'];
let report: SessionRig['report'];
let streaming: SessionRig['streaming'];
beforeAll(async () => {
  ({ db, report, streaming } = await sessionRig());
});
afterAll(() => db.close());

test('usage tells of sessions as of jobs, and its sums agree across hours and midnight', async () => {
  const account = await db.account(100);
  const { accountId } = account;
  const at = async (moment: string, streamedMs: number) => {
    const id = await streaming(accountId, { capability: streamedMs % 2 ? 'voice' : 'full-live-swap' });
    await db.sql`update sessions set created_at = ${moment} where id = ${id}`;
    await report([told(id, streamedMs, { ended: true })]);
    return id;
  };
  const moments = ['2026-02-28T22:59:59.999999Z', '2026-02-28T23:00:00Z', '2026-02-28T23:59:59.999999Z'];
  moments.push('2026-03-01T00:00:00Z', '2026-03-01T00:00:00.000001Z');
  const ids: string[] = [];
  for (const [i, moment] of moments.entries()) ids.unshift(await at(moment, i * 1_001));
  const { jobId } = await db.submitter()(account.submission());
  await db.sql`update jobs set created_at = '2026-02-28T23:30:00Z' where id = ${jobId}`;
  await db.sql`select settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`;
  const open = await openSession(db.sql, accountId);
  const running = await streaming(accountId);
  // Neither an opening nor a refused one is a call.
  await reserveSession(db.sql, accountId);
  await db.sql`select refuse_sessions(array[${(await reserveSession(db.sql, accountId)).id}])`;

  const entries = await readUsage(db.sql, accountId, undefined, 100);
  expect(entries.map(({ id }) => id)).toEqual([running, open, ...ids.slice(0, 3), jobId, ...ids.slice(3)]);
  expect(entries.slice(0, 3).map(({ status, reason }) => [status, reason])).toEqual([
    ['processing', undefined],
    ['queued', undefined],
    ['succeeded', undefined],
  ]);
  expect(entries.at(-1)).toMatchObject({ status: 'failed', reason: 'no_stream', chargedMicros: 0n });

  const micros = (iso: string) => BigInt(Date.parse(iso)) * 1000n;
  const ends = [
    '2026-02-28T22:59:59.999Z',
    '2026-02-28T23:00:00Z',
    '2026-02-28T23:15:00Z',
    '2026-03-01T00:00:00Z',
  ];
  const bounds = [undefined, ...ends.map(micros), micros('2026-03-01T01:00:00Z'), undefined];
  for (const [i, from] of bounds.entries()) {
    for (const to of bounds.slice(i + 1)) {
      const range = { fromMicros: from, toMicros: to };
      const listed = await readUsage(db.sql, accountId, range, 500);
      const sum = await summarizeUsage(db.sql, accountId, range);
      const count = (...of: string[]) => BigInt(listed.filter(({ status }) => of.includes(status)).length);
      expect([sum.succeeded, sum.failed, sum.inFlight], `${from} to ${to}`).toEqual([
        ...[count('succeeded'), count('failed'), count('queued', 'processing')],
      ]);
      expect(sum.spentMicros).toBe(listed.reduce((total, entry) => total + entry.chargedMicros, 0n));
    }
  }
  expect(await db.faults(accountId)).toEqual([]);
});

test('a charge is dated by the day it was made', async () => {
  const { accountId } = await db.account(10);
  const [late, early] = [await streaming(accountId), await streaming(accountId)];
  for (const [id, moment] of [
    [late, '2026-03-08T23:59:59.999Z'],
    [early, '2026-03-09T00:00:00.000Z'],
  ] as const) {
    const reportThen = createReports({ database: db.database, now: () => new Date(moment) });
    await reportThen([told(id, 1_000, { ended: true })]);
  }
  // Monday the 9th begins a week.
  const { spentThisWeekMicros, spentThisMonthMicros } = await readBalance(
    db.sql,
    accountId,
    new Date('2026-03-09T10:00:00Z'),
  );
  expect([spentThisWeekMicros, spentThisMonthMicros]).toEqual([1_000n, 2_000n]);
  expect(await db.faults(accountId)).toEqual([]);
});
