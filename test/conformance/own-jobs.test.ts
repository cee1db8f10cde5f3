import { setTimeout as delay } from 'node:timers/promises';
import { apiOf, type JobRecord } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: an account's list of its jobs, what it notes with them, and when outputs end. */
let stack: Stack;
let account: Account;
let keys: { image_key: string; face_key: string };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
  const [image_key, face_key] = await Promise.all([
    account.api.upload(ADMIRAL),
    account.api.upload(ASTRONAUT),
  ]);
  keys = { image_key, face_key };
}, 240_000);

type Listed = JobRecord & {
  readonly capability: string;
  readonly feature: string;
  readonly created_at: string;
  readonly ended_at: string | null;
  readonly metadata?: Record<string, string>;
  readonly expires_at?: string;
};
interface Page {
  readonly jobs: Listed[];
  readonly next_cursor: string | null;
}

const submit = (more: object = {}, of = account) => of.api.post('/face-swap-image', { ...keys, ...more });
async function submitted(more: object = {}): Promise<string> {
  const answer = await submit(more);
  expect(answer.status, answer.text).toBe(200);
  return (answer.body as { id: string }).id;
}
async function list(query = '', of = account): Promise<Page> {
  const answer = await of.api.get(`/jobs${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Page;
}
const idsOf = async (query = '', of = account) => (await list(query, of)).jobs.map(({ id }) => id);

describe('GET /jobs', () => {
  test('lists the record of each job, with capability and times, of the account alone', async () => {
    const metadata = { order: '4711', 'shop.name': 'Größe: 5 % & mehr' };
    const id = await submitted({ metadata });
    const job = (await account.api.finished(id)) as Listed;
    expect(job.metadata).toEqual(metadata);
    const [first] = (await list()).jobs;
    const { capability, feature, created_at, ended_at, ...record } = first as Listed;
    expect(record).toEqual(job);
    expect([capability, feature]).toEqual(['face-swap-image', 'photo_swap']);
    expect(created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(Date.parse(ended_at ?? '')).toBeGreaterThanOrEqual(Math.floor(Date.parse(created_at)));

    const stranger = await stack.newAccount({ balanceUsd: 1 });
    expect(await list('', stranger)).toEqual({ jobs: [], next_cursor: null });
    const entry = `?metadata=${encodeURIComponent('shop.name:Größe: 5 % & mehr')}`;
    expect(await idsOf(entry)).toEqual([id]);
    expect(await idsOf(entry, stranger)).toEqual([]);
    expect(await idsOf('?metadata=shop.name:')).toEqual([]);
  });

  test('filters by status, capability and time together', async () => {
    const plain = await account.api.upload(await faceless());
    const failing = await submitted({ image_key: plain });
    expect((await account.api.finished(failing)).status).toBe('failed');
    expect(await idsOf('?status=failed')).toEqual([failing]);
    expect(await idsOf('?status=failed&capability=face-swap')).toEqual([]);
    expect(await idsOf('?status=failed&capability=face-swap-image')).toEqual([failing]);
    const { created_at } = (await list('?status=failed')).jobs[0] as Listed;
    expect(await idsOf(`?status=failed&from=${created_at}`)).toEqual([failing]);
    expect(await idsOf(`?status=failed&to=${created_at}`)).toEqual([]);
    expect(await idsOf(`?from=2036-01-01`)).toEqual([]);
  });

  test('pages by cursor, and misses and repeats nothing while jobs are added', async () => {
    const ids = [];
    for (let i = 0; i < 5; i++) ids.unshift(await submitted({ metadata: { round: 'paged' } }));
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: Page = await list(`?metadata=round:paged&limit=2${cursor && `&cursor=${cursor}`}`);
      seen.push(...page.jobs.map(({ id }) => id));
      cursor = page.next_cursor;
      await submitted({ metadata: { round: 'paged' } });
    }
    expect(seen).toEqual(ids);
    await Promise.all((await idsOf('?metadata=round:paged')).map((id) => account.api.finished(id)));
  });

  test.each([
    '?status=done',
    '?status=',
    '?capability=voice',
    '?limit=0',
    '?limit=201',
    '?limit=1&limit=2',
    '?cursor=',
    '?cursor=abc',
    '?cursor=%00',
    '?from=yesterday',
    '?from=2026-02-01&to=2026-01-01',
    '?metadata=order',
    '?metadata=:x',
    '?metadata=order:%00',
    '?metadata=a:1&metadata=b:2',
  ])('%s is invalid_input', async (query) => {
    expectError(await account.api.get(`/jobs${query}`), 'invalid_input');
  });

  test('without a key nothing is told', async () => {
    const nobody = apiOf({ baseUrl: account.api.baseUrl });
    for (const path of ['/jobs', '/jobs?limit=x', '/receipts', '/receipts?limit=x'])
      expectError(await nobody.get(path), 'unauthorized');
  });

  test.each<[string, unknown]>([
    ['a text', 'x'],
    ['a list', ['x']],
    ['a number as a value', { a: 1 }],
    ['an object as a value', { a: {} }],
    ['17 entries', Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`n${i}`, 'x']))],
    ['a value of 257 characters', { a: 'x'.repeat(257) }],
    ['a name of 41 characters', { ['n'.repeat(41)]: 'x' }],
    ['a name with a space', { 'a b': 'x' }],
    ['an empty name', { '': 'x' }],
    ['NUL', { a: '\0' }],
    ['5 kB', Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`n${i}`, 'ü'.repeat(250)]))],
  ])('metadata that is, or has, %s is invalid_input, and nothing is held', async (_, metadata) => {
    const before = await account.api.balance();
    expectError(await submit({ metadata }), 'invalid_input');
    expect(
      (await account.api.post('/estimate', { capability: 'face-swap-image', ...keys, metadata })).status,
    ).toBe(400);
    expect(await account.api.balance()).toEqual(before);
  });
});

describe('expires_in and expires_at', () => {
  const endOf = async (id: string) =>
    Date.parse((await list()).jobs.find((job) => job.id === id)?.ended_at ?? '');

  test('without it the setting of the owner counts, with it the output ends earlier, and its link with it', async () => {
    const [usual, early] = [await submitted(), await submitted({ expires_in: 3_600 })];
    const [kept, short] = [await account.api.finished(usual), await account.api.finished(early)] as Listed[];
    expect(Date.parse(kept?.expires_at ?? '')).toBe((await endOf(usual)) + 2_592_000_000);
    expect(Date.parse(short?.expires_at ?? '')).toBe((await endOf(early)) + 3_600_000);
    const expires = Number(new URL(short?.output_url ?? '').searchParams.get('expires'));
    expect(expires * 1000).toBeLessThan(Date.parse(short?.expires_at ?? '') + 1_000);
  });

  test('then the output is gone: no link, nothing behind the old one, and a receipt', async () => {
    const id = await submitted({ expires_in: 10 });
    const job = (await account.api.finished(id)) as Listed;
    expect((await fetch(job.output_url ?? '')).status).toBe(200);
    await eventually(
      'the output to expire',
      async () => (await account.api.job(id)).output_url === null || undefined,
    );
    const after = (await account.api.job(id)) as Listed;
    expect(after).toMatchObject({ status: 'succeeded', charged_usd: job.charged_usd });
    expect(after).not.toHaveProperty('expires_at');
    // No link outlives the output.
    await delay(Math.max(0, Date.parse(job.expires_at ?? '') - Date.now()));
    expect((await fetch(job.output_url ?? '')).status).toBe(403);
    const receipts = await eventually(
      'the receipt',
      async () => {
        const { body } = await account.api.get(`/receipts?job_id=${id}`);
        const page = body as { receipts: { statement: object }[]; pending: number };
        return page.receipts.length > 0 && page.pending === 0 ? page.receipts : undefined;
      },
      { withinMs: 120_000 },
    );
    expect(receipts.map(({ statement }) => statement)).toContainEqual(
      expect.objectContaining({ kind: 'output', job_id: id, requested_by: 'retention' }),
    );
  }, 180_000);

  test.each([0, -1, 1.5, '60', true, {}, [[60]], 1e300, 315_360_001])(
    'expires_in %j is invalid_input',
    async (expires_in) => {
      expectError(await submit({ expires_in }), 'invalid_input');
    },
  );

  test('longer than the owner keeps outputs is invalid_input, with the longest time named', async () => {
    const answer = await submit({ expires_in: 2_592_001 });
    expectError(answer, 'invalid_input');
    expect(answer.text).toMatch(/expires_in.*at most 2592000/);
    const estimated = await account.api.post('/estimate', {
      ...{ capability: 'face-swap-image', ...keys },
      expires_in: 2_592_001,
    });
    expect(estimated.text).toBe(answer.text);
  });
});
