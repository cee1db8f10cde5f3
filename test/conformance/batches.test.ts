import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Receiver, startReceiver } from '@semblance/testkit/stack/receiver';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: batches. */
let stack: Stack;
let account: Account;
let receiver: Receiver;
let swap: { capability: string; image_key: string; face_key: string };
let blank: typeof swap;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 10 });
  receiver = await startReceiver(200);
  const [image_key, face_key, nobody] = await Promise.all([
    account.api.upload(ADMIRAL),
    account.api.upload(ASTRONAUT),
    account.api.upload(await faceless('jpeg', 64, 64)),
  ]);
  swap = { capability: 'face-swap-image', image_key, face_key };
  blank = { ...swap, image_key: nobody };
}, 240_000);
afterAll(() => receiver?.close());

type Json = Record<string, unknown>;
type Counts = Record<'queued' | 'processing' | 'succeeded' | 'failed', number>;
const get = async (path: string, of = account) => {
  const answer = await of.api.get(path);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Json;
};

describe('batches', () => {
  test('a batch gives what succeeds, charges that alone, and tells its end once', async () => {
    const headers = { 'Idempotency-Key': 'batch of three' };
    const body = {
      items: [swap, blank, { ...swap, metadata: { place: 'last' } }],
      callback_url: receiver.url,
      metadata: { album: '4711' },
    };
    const taken = await account.api.post('/batches', body, headers);
    expect(taken.status, taken.text).toBe(200);
    expect(taken.body).toMatchObject({
      status: 'processing',
      jobs: 3,
      charged_usd: 0,
      metadata: { album: '4711' },
    });
    const { id } = taken.body as { id: string };
    const again = await account.api.post('/batches', body, headers);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((again.body as Json).id).toBe(id);
    expectError(await account.api.post('/batches', { ...body, items: [swap] }, headers), 'invalid_input');
    await eventually(
      'its end',
      async () => (await get(`/batches/${id}`)).status === 'finished' || undefined,
      {
        withinMs: 120_000,
      },
    );
    const ended = await get(`/batches/${id}`);
    expect(ended.counts).toEqual({ queued: 0, processing: 0, succeeded: 2, failed: 1 });
    const { jobs, next_index } = (await get(`/batches/${id}/jobs`)) as unknown as {
      jobs: (Json & { id: string; error: Json | null })[];
      next_index: null;
    };
    expect(next_index).toBeNull();
    expect(jobs.map(({ index, status }) => [index, status])).toEqual([
      [0, 'succeeded'],
      [1, 'failed'],
      [2, 'succeeded'],
    ]);
    expect(jobs[1]?.error).toMatchObject({ code: 'face_not_detected' });
    expect(jobs[2]?.metadata).toEqual({ place: 'last' });
    const { index: _, capability: __, ...record } = jobs[0] as Json;
    expect(await get(`/jobs/${jobs[0]?.id}`)).toEqual(record);
    const charged = jobs.reduce((sum, { charged_usd }) => sum + Number(charged_usd), 0);
    expect(ended.charged_usd).toBeCloseTo(charged, 9);
    await eventually('its webhook', async () => receiver.received[0], { withinMs: 30_000 });
    const { secret } = (await get('/webhook-secret')) as { secret: string };
    const [told] = receiver.received;
    const verified = new Webhook(secret).verify(
      told?.body.toString() ?? '',
      told?.headers as Record<string, string>,
    ) as Json;
    expect(verified).toMatchObject({ event: 'batch.finished', data: ended });
    expect(receiver.received).toHaveLength(1);
  }, 180_000);

  test('an estimate is the sum of its items, and holds nothing', async () => {
    const before = await get('/balance');
    const estimate = await account.api.post('/batches/estimate', { items: [swap, blank] });
    const single = await account.api.post('/estimate', swap);
    expect(estimate.status, estimate.text).toBe(200);
    const { hold_usd } = single.body as { hold_usd: number };
    expect(estimate.body).toEqual({
      hold_usd: 2 * hold_usd,
      balance_sufficient: true,
      cap_sufficient: true,
      items: [{ hold_usd }, { hold_usd }],
    });
    expect(await get('/balance')).toEqual(before);
  });

  test('a batch of hundreds does not keep the single job of another account waiting', async () => {
    const [many, single] = await Promise.all([
      stack.newAccount({ balanceUsd: 100 }),
      stack.newAccount({ balanceUsd: 1 }),
    ]);
    await stack.admin('limit', 'set', { account: many.accountId, 'jobs-in-flight': '400' });
    const bodyOf = async ({ api }: Account) => {
      const [image_key, face_key] = await Promise.all([api.upload(ADMIRAL), api.upload(ASTRONAUT)]);
      return { image_key, face_key };
    };
    const [item, body] = await Promise.all([bodyOf(many), bodyOf(single)]);
    const items = Array.from({ length: 300 }, () => ({ capability: 'face-swap-image', ...item }));
    const made = await many.api.post('/batches', { items });
    expect(made.status, made.text).toBe(200);
    const { id } = made.body as { id: string };
    const read = async () => (await many.api.get(`/batches/${id}`)).body as Json & { counts: Counts };
    while ((await read()).counts.succeeded < 2) await new Promise((resolve) => setTimeout(resolve, 100));
    const before = (await read()).counts;
    const { id: jobId } = await single.api.swap(body);
    expect((await single.api.finished(jobId)).status).toBe('succeeded');
    const after = (await read()).counts;
    // It waits for the jobs that run, and takes turns with the rest, so most of the batch still waits.
    expect(before.queued).toBeGreaterThan(250);
    expect(before.queued - after.queued).toBeLessThan(40);
    await many.api.post(`/batches/${id}/cancel`, {});
    await expect.poll(async () => (await read()).status, { timeout: 60_000, interval: 500 }).toBe('finished');
  }, 180_000);

  test('the rest of a batch is cancelled in one step', async () => {
    const of = await stack.newAccount({ balanceUsd: 10 });
    const [image_key, face_key] = await Promise.all([of.api.upload(ADMIRAL), of.api.upload(ASTRONAUT)]);
    const items = Array.from({ length: 20 }, () => ({ ...swap, image_key, face_key }));
    const { id } = (await of.api.post('/batches', { items })).body as { id: string };
    const cancelled = await of.api.post(`/batches/${id}/cancel`, {});
    expect(cancelled.status, cancelled.text).toBe(200);
    await eventually(
      'its end',
      async () => (await get(`/batches/${id}`, of)).status === 'finished' || undefined,
      {
        withinMs: 60_000,
      },
    );
    const ended = (await get(`/batches/${id}`, of)) as Json & {
      counts: { succeeded: number; failed: number };
    };
    expect(ended.counts.failed).toBeGreaterThan(0);
    expect(ended.counts.succeeded + ended.counts.failed).toBe(20);
    expect((await get('/balance', of)).held_usd).toBe(0);
    expect((await of.api.post(`/batches/${id}/cancel`, {})).body).toEqual(ended);
  }, 120_000);

  test.each<[string, () => unknown, RegExp]>([
    ['no items', () => ({ items: [] }), /items/],
    ['1,001 items', () => ({ items: Array.from({ length: 1_001 }, () => swap) }), /1,000/],
    ['an item that is a list', () => ({ items: [swap, []] }), /items\.1/],
    [
      'an item without a capability',
      () => ({ items: [swap, { ...swap, capability: undefined }] }),
      /items\.1/,
    ],
    ['a live capability', () => ({ items: [{ ...swap, capability: 'voice' }] }), /items\.0/],
    [
      'an item without a picture',
      () => ({ items: [swap, { capability: swap.capability }] }),
      /items\.1.*image_key/,
    ],
    [
      'the key of another account',
      () => ({ items: [swap, { ...swap, image_key: 'api/up-none' }] }),
      /items\.1.*image_key/,
    ],
    [
      'a callback that is none',
      () => ({ items: [{ ...swap, callback_url: 'ftp://x' }] }),
      /items\.0.*callback_url/,
    ],
    ['metadata that is a text', () => ({ items: [swap], metadata: 'a' }), /metadata/],
    ['no object', () => [swap], /object/],
  ])('a batch with %s is refused whole, and the fault is named', async (_, body, named) => {
    const before = await get('/balance');
    const message = expectError(await account.api.post('/batches', body()), 'invalid_input');
    expect(message).toMatch(named);
    expect(await get('/balance')).toEqual(before);
  });

  test('is its account’s alone', async () => {
    const { id } = (await account.api.post('/batches', { items: [swap] })).body as { id: string };
    const stranger = await stack.newAccount({ balanceUsd: 1 });
    for (const path of [`/batches/${id}`, `/batches/${id}/jobs`])
      expectError(await stranger.api.get(path), 'not_found');
    expectError(await stranger.api.post(`/batches/${id}/cancel`, {}), 'not_found');
    expect(await get('/batches', stranger)).toEqual({ batches: [], next_cursor: null });
    const { batches } = (await get('/batches?limit=1')) as { batches: Json[] };
    expect(batches[0]?.id).toBe(id);
    expectError(
      await apiOf({ baseUrl: account.api.baseUrl }).post('/batches', { items: [swap] }),
      'unauthorized',
    );
  });
});
