import { newId } from '@semblance/common/ids';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listJobs } from './list-jobs.ts';
import type { Submission } from './submission.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await db.sql`update capabilities set switched_on = true, has_engine = true where name = 'lip-sync'`;
});
afterAll(() => db.close());

type Asked = Partial<Parameters<typeof listJobs>[2]>;

const list = (accountId: string, asked: Asked = {}) =>
  listJobs(db.sql, accountId, { limit: 200, range: undefined, metadata: undefined, ...asked });
const idsOf = async (accountId: string, asked: Asked = {}) =>
  (await list(accountId, asked)).jobs.map(({ row }) => row.id);

/** Reads every page. */
async function all(accountId: string, asked: Asked = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await list(accountId, { ...asked, ...(cursor && { cursor }) });
    ids.push(...page.jobs.map(({ row }) => row.id));
    cursor = page.nextCursor;
    if (cursor === undefined) return ids;
  }
}

const settle = (jobId: string, succeeds: boolean) =>
  succeeds
    ? db.sql`select settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`
    : db.sql`select settle_job(${jobId}, null, null, 'processing_failed', 'No.', 'render_failed', null)`;

async function submitted(account: { submission: (more?: Partial<Submission>) => Submission }, more = {}) {
  return (await db.submitter()(account.submission(more))).jobId;
}

describe('a list of jobs', () => {
  test('has those of the account that fit every filter, the newest first, with metadata', async () => {
    const account = await db.account(100);
    const stranger = await db.account(100);
    const [a, b, c, d] = [
      await submitted(account, { metadata: { order: '1', shop: 'north' } }),
      await submitted(account, { metadata: { order: '2' } }),
      await submitted(account, {
        capability: 'lip-sync',
        inputs: { video: account.files.video, audio: account.files.audio },
      }),
      await submitted(account, { metadata: { order: '1' } }),
    ];
    const other = await submitted(stranger, { metadata: { order: '1' } });
    await settle(a, true);
    await settle(b, false);
    await db.sql`update jobs set status = 'processing' where id = ${c}`;
    const { accountId } = account;
    expect(await idsOf(accountId)).toEqual([d, c, b, a]);
    expect(await idsOf(stranger.accountId)).toEqual([other]);
    for (const [status, ids] of Object.entries({ queued: [d], processing: [c], succeeded: [a], failed: [b] }))
      expect(await idsOf(accountId, { status }), status).toEqual(ids);
    expect(await idsOf(accountId, { capability: 'lip-sync' })).toEqual([c]);
    expect(await idsOf(accountId, { metadata: { name: 'order', value: '1' } })).toEqual([d, a]);
    expect(await idsOf(accountId, { metadata: { name: 'order', value: '1' }, status: 'succeeded' })).toEqual([
      a,
    ]);
    for (const [name, value] of [
      ['order', '3'],
      ['order', ''],
      ['shop', '1'],
      ['orde', 'r:1'],
    ] as const)
      expect(await idsOf(accountId, { metadata: { name, value } }), `${name} ${value}`).toEqual([]);
    const { jobs } = await list(accountId);
    expect(jobs.map(({ row }) => row.metadata)).toEqual([
      { order: '1' },
      null,
      { order: '2' },
      { order: '1', shop: 'north' },
    ]);
    expect(jobs.map(({ capability }) => capability)).toEqual([
      'face-swap-image',
      'lip-sync',
      'face-swap-image',
      'face-swap-image',
    ]);
    expect(jobs.map(({ endedAt }) => endedAt !== undefined)).toEqual([false, false, true, true]);

    const at = (i: number) =>
      BigInt(Date.parse(jobs[i]?.createdAt.replace(/(\d{3})\d{3}Z/, '$1Z') ?? '')) * 1000n +
      BigInt(jobs[i]?.createdAt.slice(-4, -1) ?? '');
    expect(await idsOf(accountId, { range: { fromMicros: at(2), toMicros: at(0) } })).toEqual([c, b]);
  });

  test('read page by page misses and repeats nothing while jobs are added and end', async () => {
    const account = await db.account(1_000);
    await db.sql`update accounts set jobs_in_flight_limit = 1000 where id = ${account.accountId}`;
    const submit = db.submitter();
    const before: string[] = [];
    for (let i = 0; i < 23; i++) before.unshift((await submit(account.submission())).jobId);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await list(account.accountId, { limit: 5, ...(cursor && { cursor }) });
      seen.push(...page.jobs.map(({ row }) => row.id));
      cursor = page.nextCursor;
      await Promise.all([submit(account.submission()), submit(account.submission())]);
      await settle(before[seen.length % 23] as string, seen.length % 2 === 0);
    } while (cursor);
    expect(seen).toEqual(before);
    expect(await all(account.accountId, { limit: 7 })).toHaveLength(23 + 10);
  });

  test.each<[string, Asked]>([
    ['no status', { status: 'done' }],
    ['no capability', { capability: 'voice' }],
    ['an unknown capability', { capability: 'x\0' }],
    ['no limit', { limit: 0 }],
    ['a limit that is too large', { limit: 201 }],
    ['NUL', { metadata: { name: 'a', value: '\0' } }],
    ['an empty cursor', { cursor: '' }],
    ['no cursor', { cursor: 'abc' }],
    ['a forged cursor', { cursor: Buffer.from("2026-01-01T00:00:00Z ' or 1=1").toString('base64url') }],
  ])('with %s is refused', async (_, asked) => {
    const { accountId } = await db.account();
    await expect(list(accountId, asked)).rejects.toMatchObject({ code: 'invalid_input' });
  });

  test.each([
    ['too many entries', Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`n${i}`, 'v']))],
    ['a long value', { name: 'v'.repeat(257) }],
    ['a long name', { ['n'.repeat(41)]: 'v' }],
    ['a name with a colon', { 'a:b': 'v' }],
    ['an empty name', { '': 'v' }],
    ['NUL', { name: '\0' }],
    ['half a character', { name: '\ud800' }],
    [
      'too much together',
      Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`n${i}`, 'é'.repeat(200)])),
    ],
  ])('takes no metadata with %s', async (_, metadata) => {
    const account = await db.account();
    await expect(submitted(account, { metadata })).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await db.balances(account.accountId)).toMatchObject({ held: 0n });
  });

  test('a repeat finds its job, however short the owner keeps outputs by now; another submit is refused', async () => {
    const account = await db.account();
    const submit = (idempotencyKey: string) =>
      submitted(account, { expiresInSeconds: 86_400, idempotencyKey });
    const first = await submit('a');
    await db.sql`update settings set output_retention_seconds = 7200`;
    try {
      expect(await submit('a')).toBe(first);
      await expect(submit('b')).rejects.toMatchObject({ code: 'invalid_input' });
    } finally {
      await db.sql`update settings set output_retention_seconds = default`;
    }
  });

  test('a repeat with other metadata is another request, one with the same is the same', async () => {
    const account = await db.account();
    const submit = (metadata: Record<string, string> | undefined, expiresInSeconds?: number) =>
      submitted(account, { metadata, expiresInSeconds, idempotencyKey: 'k' });
    const first = await submit({ a: '1', b: '2' });
    expect(await submit({ b: '2', a: '1' })).toBe(first);
    for (const other of [{ a: '1' } as Record<string, string>, {}, undefined])
      await expect(submit(other)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(submit({ a: '1', b: '2' }, 60)).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await idsOf(account.accountId, { metadata: { name: 'a', value: '1' } })).toEqual([first]);
  });
});

test('of an account with many jobs reads a page by an index, whatever is asked for', {
  timeout: 240_000,
}, async () => {
  const account = await db.account(10_000);
  const { accountId } = account;
  const JOBS = 12_000;
  const ids = Array.from({ length: JOBS }, () => newId('job-'));
  await db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    select ${accountId}, 'hold', 'available', 'held', 80000, id from unnest(${ids}::text[]) id`;
  await db.sql`
    insert into jobs (id, account_id, capability, inputs, parameters, metadata, hold_id, hold_micros, rate_version, unit,
                      rate_micros, minimum_micros, created_at, status, settled_at, charged_micros, output_key)
    select h.job_id, h.account_id, case when n <= 3 then 'lip-sync' else 'face-swap-image' end, '{}', '{}',
           case when n <= 3 then '{"order": "7"}'::jsonb else '{"all": "x"}'::jsonb end,
           h.id, h.amount_micros, 1, 'image', 40000, 40000, now() - (${JOBS}::int - n) * interval '1 second',
           case when n <= 4 then 'queued' else 'succeeded' end, case when n > 4 then now() end,
           case when n > 4 then 40000 end, case when n > 4 then 'out/' || n end
    from unnest(${ids}::text[]) with ordinality as u(id, n)
    join ledger_transfers h on h.job_id = u.id and h.kind = 'hold'`;
  await db.sql`
    insert into job_metadata (account_id, entry_sha256, created_at, job_id)
    select account_id, metadata_entry(e.key, e.value), created_at, id
    from jobs, jsonb_each_text(metadata) e where account_id = ${accountId}`;
  // The oldest failed, two of the oldest are still under way, and the rest succeeded.
  for (let i = 0; i < 2; i++) await settle(ids[i] as string, false);
  const middle = BigInt(Date.now() - (JOBS / 2) * 1000) * 1000n;
  const asked: [string, Asked, number][] = [
    ['the newest', {}, 50],
    ['before a moment', { range: { toMicros: middle } }, 50],
    ['succeeded', { status: 'succeeded' }, 50],
    ['failed', { status: 'failed' }, 2],
    ['queued', { status: 'queued' }, 2],
    ['processing', { status: 'processing' }, 0],
    ['a rare capability', { capability: 'lip-sync' }, 3],
    ['a rare entry', { metadata: { name: 'order', value: '7' } }, 3],
    ['a common entry', { metadata: { name: 'all', value: 'x' } }, 50],
    ['an unknown entry', { metadata: { name: 'order', value: '8' } }, 0],
  ];
  for (const known of [false, true]) {
    if (known) await db.sql`analyze`;
    for (const [what, filter, count] of asked) {
      const before = await db.rowsRead('jobs', 'job_metadata');
      expect((await list(accountId, { limit: 50, ...filter })).jobs, what).toHaveLength(count);
      const after = await db.rowsRead('jobs', 'job_metadata');
      const read = after.map((n, i) => n - (before[i] ?? Number.NaN));
      expect(Math.max(...read), `${what}, ${known ? 'analyzed' : 'not analyzed'}: ${read}`).toBeLessThan(160);
    }
  }
  const pages = await all(accountId, { limit: 200 });
  expect(pages).toEqual([...ids].reverse());
});
