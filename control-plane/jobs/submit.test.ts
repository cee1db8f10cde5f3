import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { removeOldKeys } from '../chores/housekeeping.ts';
import type { Submission } from './submission.ts';
import { bodyDigest, checkCallbackUrl, createSubmit, type SubmitDebts } from './submit.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await db.sql`update settings set jobs_in_flight = 100000`;
});
afterAll(() => db.close());

const count = (results: PromiseSettledResult<unknown>[], code?: string) =>
  results.filter((result) =>
    result.status === 'rejected' ? result.reason.code === code : code === undefined,
  ).length;

async function stored(accountId: string) {
  const [row] = await db.sql<{ jobs: number; holds: number; debts: number; keys: number }[]>`
    select (select count(*)::int from jobs where account_id = ${accountId}) as jobs,
           (select count(*)::int from ledger_transfers where account_id = ${accountId} and kind = 'hold') as holds,
           (select count(*)::int from outbox o join jobs j on j.id = o.job_id where j.account_id = ${accountId}) as debts,
           (select count(*)::int from idempotency_keys where account_id = ${accountId}) as keys`;
  return row;
}

test('50 submits at once on a balance for 7 are 7 jobs, from two control planes together', async () => {
  const account = await db.account(0.45);
  const submits = [db.submitter(), db.submitter()];
  const results = await Promise.allSettled(
    Array.from({ length: 50 }, (_, i) => submits[i % 2]?.(account.submission())),
  );
  expect([count(results), count(results, 'insufficient_balance')]).toEqual([7, 43]);
  expect(await db.balances(account.accountId)).toMatchObject({ available: 30_000n, held: 420_000n });
  expect(await stored(account.accountId)).toEqual({ jobs: 7, holds: 7, debts: 14, keys: 0 });
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('100 retries at once under one Idempotency-Key are one job with one hold', async () => {
  const account = await db.account(10);
  const debts: SubmitDebts[] = [];
  const onCommitted = (debt: SubmitDebts) => debts.push(debt);
  const submits = [1, 2].map(() =>
    createSubmit({ database: db.database, onCommitted, onUnknown: () => {}, webhooks: false }),
  );
  const submission = account.submission({ idempotencyKey: 'order 1' });
  const results = await Promise.all(Array.from({ length: 100 }, (_, i) => submits[i % 2]?.(submission)));
  expect(new Set(results.map((result) => result?.jobId)).size).toBe(1);
  expect(results.filter((result) => !result?.replayed)).toHaveLength(1);
  expect(debts).toHaveLength(1);
  expect(await stored(account.accountId)).toEqual({ jobs: 1, holds: 1, debts: 2, keys: 1 });
});

test('a key answers the original even when the request would be refused by now', async () => {
  const account = await db.account(0.06);
  const submit = db.submitter();
  const submission = account.submission({ idempotencyKey: 'k' });
  const first = await submit(submission);
  await expect(submit({ ...submission, idempotencyKey: 'l' })).rejects.toMatchObject({
    code: 'insufficient_balance',
  });
  await db.sql`update capabilities set switched_on = false where name = 'face-swap-image'`;
  try {
    expect(await submit(submission)).toEqual({ jobId: first.jobId, replayed: true });
    await expect(submit(account.submission())).rejects.toMatchObject({ code: 'capability_unavailable' });
  } finally {
    await db.sql`update capabilities set switched_on = true where name = 'face-swap-image'`;
  }
});

test('a key is remembered for a day at least, whatever is set, and its job with it', async () => {
  const account = await db.account();
  const submission = account.submission({ idempotencyKey: 'yesterday' });
  const first = await db.submitter()(submission);
  await db.sql`update idempotency_keys set created_at = now() - interval '24 hours' where account_id = ${account.accountId}`;
  await removeOldKeys(db.sql);
  expect(await db.submitter()(submission)).toEqual({ jobId: first.jobId, replayed: true });
  const shorter = db.sql`update settings set idempotency_seconds = 86399`;
  await expect(shorter).rejects.toMatchObject({ code: '23514' });
  await db.sql`update idempotency_keys set created_at = now() - interval '49 hours' where account_id = ${account.accountId}`;
  await removeOldKeys(db.sql);
  expect(await db.submitter()(submission)).toMatchObject({ replayed: false });
});

test('a key with another body is refused; keys of two accounts are two keys', async () => {
  const [a, b] = [await db.account(), await db.account()];
  const submit = db.submitter();
  await submit(a.submission({ idempotencyKey: 'k' }));
  const different: Partial<Submission>[] = [
    { parameters: { quality: 'high' } },
    { inputs: { image: a.files.image, face: 'api/other' } },
  ];
  for (const change of different) {
    const again = submit(a.submission({ idempotencyKey: 'k', ...change }));
    await expect(again).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining('Idempotency-Key'),
    });
  }
  expect(await submit(b.submission({ idempotencyKey: 'k' }))).toMatchObject({ replayed: false });
});

test('a refused submit does not use up its key', async () => {
  const account = await db.account(0.01);
  const submit = db.submitter();
  const submission = account.submission({ idempotencyKey: 'k' });
  await expect(submit(submission)).rejects.toMatchObject({ code: 'insufficient_balance' });
  await db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
    values (${account.accountId}, 'top_up', 'funding', 'available', 1000000)`;
  expect(await submit(submission)).toMatchObject({ replayed: false });
});

test('what is reserved by sessions cannot be held', async () => {
  const account = await db.account(1);
  await db.sql`update account_balances set reserved_micros = 950000 where account_id = ${account.accountId}`;
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
});

test('the ceilings of an account and of the platform are exact under concurrency', async () => {
  const [a, b] = [await db.account(), await db.account()];
  await db.sql`update accounts set jobs_in_flight_limit = 5 where id = ${a.accountId}`;
  const submits = [db.submitter(), db.submitter()];
  const own = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => submits[i % 2]?.(a.submission())),
  );
  expect([count(own), count(own, 'at_capacity')]).toEqual([5, 15]);
  const [{ n = 0 } = {}] = await db.sql<
    { n: number }[]
  >`select count(*)::int as n from jobs where settled_at is null`;
  await db.sql`update settings set jobs_in_flight = ${n + 6}`;
  try {
    const all = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => submits[i % 2]?.((i % 3 === 0 ? a : b).submission())),
    );
    expect(count(all)).toBe(6);
    expect(count(all, 'at_capacity')).toBe(14);
  } finally {
    await db.sql`update settings set jobs_in_flight = 100000`;
  }
});

test('keys of another account, unknown, unfinished or of another kind are refused, the former three alike', async () => {
  const [account, other] = [await db.account(), await db.account()];
  await db.sql`insert into uploads (file_key, account_id) values ('api/unfinished', ${account.accountId})`;
  const submit = db.submitter();
  const refused = (face: string) =>
    submit(account.submission({ inputs: { image: account.files.image, face } })).catch(
      ({ code, message }) => ({ code, message }),
    );
  const unknown = { code: 'invalid_input', message: '`face_key` names no upload of yours.' };
  expect(await refused('api/never-seen')).toEqual(unknown);
  expect(await refused(other.files.image)).toEqual(unknown);
  expect(await refused('api/unfinished')).toEqual(unknown);
  expect(await refused(account.files.video)).toEqual({
    code: 'invalid_input',
    message: '`face_key` must be the key of an image.',
  });
});

test.each<[string, Partial<Submission>]>([
  ['a key without its prefix', { inputs: { image: 'up-1', face: 'api/up-1' } }],
  ['a key that climbs', { inputs: { image: 'api/../secret', face: 'api/up-1' } }],
  ['a key with a NUL', { inputs: { image: 'api/\0', face: 'api/up-1' } }],
  ['a missing input', { inputs: { image: 'api/up-1' } }],
  ['an input it does not take', { inputs: { image: 'api/a', face: 'api/b', video: 'api/c' } }],
  ['an unknown capability', { capability: 'mind-swap' }],
  ['a session capability', { capability: 'voice' }],
  ['an inherited name as capability', { capability: 'constructor' }],
  ['a parameter with a NUL', { parameters: { a: '\0' } }],
  ['a parameter with half a character', { parameters: { a: '\ud83d' } }],
  ['a parameter with an odd name', { parameters: { 'a b': '1' } }],
  ['a parameter beyond all measure', { parameters: { a: 'x'.repeat(20_001) } }],
  ['an empty Idempotency-Key', { idempotencyKey: '' }],
  ['an Idempotency-Key beyond all measure', { idempotencyKey: 'x'.repeat(256) }],
  ['an Idempotency-Key that is not ASCII', { idempotencyKey: 'clé' }],
  ['a callback that is no URL', { callbackUrl: 'here' }],
  ['a callback of another scheme', { callbackUrl: 'file:///etc/passwd' }],
  ['a callback beyond all measure', { callbackUrl: `https://example.com/${'x'.repeat(2048)}` }],
  ['a callback with a password', { callbackUrl: 'https://a:b@example.com/' }],
  ['a callback, which nothing would deliver', { callbackUrl: 'https://example.com/hook' }],
])('%s is invalid_input', async (_, change) => {
  const account = await db.account();
  await expect(db.submitter()(account.submission(change))).rejects.toMatchObject({ code: 'invalid_input' });
  expect(await stored(account.accountId)).toEqual({ jobs: 0, holds: 0, debts: 0, keys: 0 });
});

test('a capability without an engine is unavailable whatever its switch says', async () => {
  const account = await db.account();
  const inputs = { video: account.files.video, face: account.files.image };
  const submit = db.submitter()(account.submission({ capability: 'face-swap', inputs }));
  await expect(submit).rejects.toMatchObject({
    code: 'capability_unavailable',
    message: expect.stringContaining('Video Swap'),
  });
});

test('one request the database cannot take fails alone, not with those it travels with', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const ghost = { ...account.submission(), accountId: 'acct-none' };
  const results = await Promise.allSettled([
    submit(account.submission()),
    submit(ghost),
    submit(account.submission()),
  ]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(await stored(account.accountId)).toMatchObject({ jobs: 2, holds: 2 });
});

test('the digest of a body depends on what it says, not on the order it is said in', () => {
  const body = {
    accountId: 'a',
    capability: 'avatar',
    inputs: { b: '1', a: '2' },
    parameters: {},
    engineOptions: {},
    callbackUrl: undefined,
    idempotencyKey: 'k',
  };
  expect(bodyDigest({ ...body, inputs: { a: '2', b: '1' }, idempotencyKey: 'l' })).toBe(bodyDigest(body));
  expect(bodyDigest({ ...body, inputs: { a: '1', b: '2' } })).not.toBe(bodyDigest(body));
  expect(bodyDigest({ ...body, inputs: {}, parameters: { b: '1', a: '2' } })).not.toBe(bodyDigest(body));
  // It is stored, so the release after this one must make the same of the same body.
  expect(bodyDigest(body)).toBe('bb9774f46533981708f730851330cdaa1d2800301594cc62b273431ff04ba87c');
});

test('a callback is kept in its canonical form, however it was written', () => {
  const canonical = ['http:\\\\Example.com\\a', 'HTTP:example.com/a', ' http://example.com:80/a\n'].map(
    (text) => checkCallbackUrl(text, true),
  );
  expect(canonical).toEqual(Array(3).fill('http://example.com/a'));
});

test('several pictures of a face are inputs of the job, each checked like the first', async () => {
  const account = await db.account();
  const { image, video } = account.files;
  const inputs = { image, face: image, face_2: image, face_8: image };
  const { jobId } = await db.submitter()(account.submission({ inputs }));
  const [row] = await db.sql<{ inputs: object }[]>`select inputs from jobs where id = ${jobId}`;
  expect(row?.inputs).toEqual(inputs);
  const refusals: [Record<string, string>, string][] = [
    [{ ...inputs, face_3: video }, '`face_keys` must be the key of an image.'],
    [{ ...inputs, face_3: 'api/up-none' }, '`face_keys` names no upload of yours.'],
    [{ ...inputs, face_3: (await db.account()).files.image }, '`face_keys` names no upload of yours.'],
    [{ ...inputs, face_3: 'http://x/y' }, '`face_keys` is not a file key'],
    [{ ...inputs, face_9: image }, 'Photo Swap takes no such input.'],
    [{ image, face_2: image }, '`face_key` is required.'],
  ];
  for (const [given, message] of refusals)
    await expect(db.submitter()(account.submission({ inputs: given }))).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringContaining(message),
    });
});
