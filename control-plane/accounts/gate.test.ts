import { randomBytes } from 'node:crypto';
import { Metadata } from '@grpc/grpc-js';
import { PATIENT, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../storage/database.ts';
import { listKeys, noteKeyUses, revokeKey } from './accounts.ts';
import { createGate, RATE_LIMIT_KEY } from './gate.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const limits = (trailers: Metadata) =>
  Object.fromEntries(
    String(trailers.get(RATE_LIMIT_KEY)[0])
      .split(',')
      .map((part) => {
        const [name, value] = part.split('=');
        return [name, Number(value)];
      }),
  ) as { limit: number; remaining: number; reset: number };

test('the limit is exact across control planes that count at the same time', async () => {
  const { caller } = await db.account(0, 60);
  const other = openDatabase({ url: db.url, ...PATIENT });
  const gates = [createGate(db.database), createGate(other)];
  try {
    const calls = Array.from({ length: 200 }, async (_, i) => {
      const trailers = new Metadata();
      const admitted = await gates[i % 2]?.admit(caller, trailers).then(
        () => true,
        () => false,
      );
      return { admitted, ...limits(trailers) };
    });
    const results = await Promise.all(calls);
    const admitted = results.filter((result) => result.admitted);
    expect(admitted).toHaveLength(60);
    // Each admitted call had a place of its own.
    expect(admitted.map(({ remaining }) => remaining).sort((a, b) => a - b)).toEqual([...Array(60).keys()]);
    expect(results.every(({ limit, reset }) => limit === 60 && reset >= 1 && reset <= 60)).toBe(true);
  } finally {
    await other.close();
  }
});

test('a window opens with the first call and ends 60 s later', async () => {
  const { caller, keyId } = await db.account(0, 2);
  const gate = createGate(db.database);
  const admit = async () => {
    const trailers = new Metadata();
    await gate.admit(caller, trailers);
    return limits(trailers);
  };
  expect(await admit()).toEqual({ limit: 2, remaining: 1, reset: 60 });
  const began = performance.now();
  await db.sql`update rate_windows set opened_at = now() - interval '30 seconds' where key_id = ${keyId}`;
  const { remaining, reset } = await admit();
  const sinceSeconds = (performance.now() - began) / 1000;
  expect(remaining).toBe(0);
  expect(reset).toBeLessThanOrEqual(30);
  expect(reset).toBeGreaterThanOrEqual(Math.floor(30 - sinceSeconds));
  await expect(admit()).rejects.toMatchObject({ code: 'rate_limited', retryable: true });
  await db.sql`update rate_windows set opened_at = opened_at - interval '30 seconds' where key_id = ${keyId}`;
  expect(await admit()).toEqual({ limit: 2, remaining: 1, reset: 60 });
});

test('a window left ahead by a clock that was set back is followed by another at once', async () => {
  const { caller, keyId } = await db.account(0, 2);
  const gate = createGate(db.database);
  const admit = async () => {
    const trailers = new Metadata();
    await gate.admit(caller, trailers);
    return limits(trailers);
  };
  const full = { code: 'rate_limited' };
  await admit();
  await admit();
  await expect(admit()).rejects.toMatchObject(full);
  await db.sql`update rate_windows set opened_at = now() + interval '1 hour' where key_id = ${keyId}`;
  expect(await admit()).toEqual({ limit: 2, remaining: 1, reset: 60 });
  // From then on it is an ordinary window.
  await admit();
  await expect(admit()).rejects.toMatchObject(full);
  // A window opened by a slightly later statement also counts the calls before it.
  await db.sql`update rate_windows set opened_at = now() + interval '3 seconds' where key_id = ${keyId}`;
  await expect(admit()).rejects.toMatchObject(full);
});

test('keys do not share a count, also when they are counted in one batch', async () => {
  const [a, b] = [await db.account(0, 3), await db.account(0, 5)];
  const gate = createGate(db.database);
  const admitted = async ({ caller }: typeof a) =>
    (await Promise.allSettled(Array.from({ length: 10 }, () => gate.admit(caller, new Metadata())))).filter(
      ({ status }) => status === 'fulfilled',
    ).length;
  expect(await Promise.all([admitted(a), admitted(b)])).toEqual([3, 5]);
});

test('no key, half a key, an unknown key and a revoked key are unauthorized, and learn of no limit', async () => {
  const gate = createGate(db.database);
  const { caller, keyId } = await db.account();
  await gate.admit(caller, new Metadata());
  await revokeKey(db.sql, keyId);
  const callers = [
    undefined,
    { keySha256: Buffer.alloc(0) },
    { keySha256: Buffer.alloc(31) },
    { keySha256: Buffer.alloc(32, 7) },
    caller,
  ];
  for (const refused of callers) {
    const trailers = new Metadata();
    await expect(gate.admit(refused, trailers)).rejects.toMatchObject({ code: 'unauthorized' });
    expect(trailers.get(RATE_LIMIT_KEY)).toEqual([]);
  }
});

test('a job is read with the call, by its owner alone', async () => {
  const gate = createGate(db.database);
  const [owner, stranger] = [await db.account(), await db.account()];
  const { jobId } = await db.submitter()(owner.submission());
  const read = async (caller: { keySha256: Buffer }, id: string) =>
    (await gate.admit(caller, new Metadata(), id)).job;
  const [own, others, none] = await Promise.all([
    read(owner.caller, jobId),
    read(stranger.caller, jobId),
    read(owner.caller, 'job-none'),
  ]);
  expect(own).toMatchObject({ id: jobId, status: 'queued', chargedMicros: null });
  expect(others).toBeUndefined();
  expect(none).toBeUndefined();
});

test('calls of one message are judged one by one, in their order', async () => {
  const gate = createGate(db.database);
  const [a, b] = [await db.account(0, 2), await db.account()];
  const { jobId } = await db.submitter()((await db.account()).submission());
  const verdicts = await gate.admitAll([
    { caller: a.caller },
    { caller: undefined },
    { caller: b.caller, jobId },
    { caller: a.caller },
    { caller: { keySha256: Buffer.alloc(31) } },
    { caller: a.caller },
    { caller: { keySha256: Buffer.alloc(32, 9) } },
    { caller: b.caller },
  ]);
  expect(
    verdicts.map(({ admission, refusal, rateLimit }) => [
      admission?.accountId ?? refusal?.code,
      rateLimit.replace(/,reset=.*/, ''),
    ]),
  ).toEqual([
    [a.accountId, 'limit=2,remaining=1'],
    ['unauthorized', ''],
    [b.accountId, 'limit=1000000,remaining=999999'],
    [a.accountId, 'limit=2,remaining=0'],
    ['unauthorized', ''],
    ['rate_limited', 'limit=2,remaining=0'],
    ['unauthorized', ''],
    [b.accountId, 'limit=1000000,remaining=999998'],
  ]);
  expect(await gate.admitAll([])).toEqual([]);
});

test('an unknown key is looked up once; keys beside it in the same message are judged', async () => {
  const { caller } = await db.account(0, 10);
  const gate = createGate(db.database);
  const wrong = { keySha256: randomBytes(32) };
  const codes = async () =>
    (await gate.admitAll([{ caller: wrong }, { caller }, { caller: wrong }, { caller: undefined }])).map(
      ({ refusal }) => refusal?.code,
    );
  const expected = ['unauthorized', undefined, 'unauthorized', 'unauthorized'];
  expect(await codes()).toEqual(expected);
  expect(await codes()).toEqual(expected);
  // Found only by whoever looks.
  const { accountId } = await gate.admit(caller, new Metadata());
  await db.sql`insert into api_keys (id, account_id, secret_sha256, per_minute)
    values ('key-late', ${accountId}, ${wrong.keySha256}, 10)`;
  expect(await codes()).toEqual(expected);
  await createGate(db.database).admit(wrong, new Metadata());
});

test('a check judges a key and counts nothing', async () => {
  const { caller, keyId } = await db.account(0, 2);
  const gate = createGate(db.database);
  await Promise.all(Array.from({ length: 50 }, () => gate.check(caller)));
  const trailers = new Metadata();
  await gate.admit(caller, trailers);
  expect(limits(trailers)).toEqual({ limit: 2, remaining: 1, reset: 60 });
  for (const keySha256 of [randomBytes(32), randomBytes(31), Buffer.alloc(0)])
    await expect(gate.check({ keySha256 })).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(gate.check(undefined)).rejects.toMatchObject({ code: 'unauthorized' });
  await revokeKey(db.sql, keyId);
  await expect(gate.check(caller)).rejects.toMatchObject({ code: 'unauthorized' });
});

test('the last use of a key is that of its window, and stays when the windows are lost', async () => {
  const { caller, keyId, accountId } = await db.account(0, 5);
  const used = async () => {
    const [key] = await listKeys(db.sql, { accountId });
    return key?.lastUsedAt;
  };
  await noteKeyUses(db.sql);
  expect(await used()).toBeUndefined();
  await createGate(db.database).admit(caller, new Metadata());
  const at = await used();
  expect(Math.abs(Date.parse(at ?? '') - Date.now())).toBeLessThan(60_000);
  expect(await noteKeyUses(db.sql)).toBe(1);
  // Nothing is written of keys that were not used since.
  expect(await noteKeyUses(db.sql)).toBe(0);
  await db.sql`delete from rate_windows where key_id = ${keyId}`;
  expect(await used()).toBe(at);
  // A window of before the clock was set back is no use.
  await db.sql`
    insert into rate_windows (key_id, opened_at, used) values (${keyId}, now() + interval '1 hour', 1)`;
  expect(await noteKeyUses(db.sql)).toBe(0);
});
