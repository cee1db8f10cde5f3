import type { Answer, Submitted } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { faceless } from '@semblance/testkit/stack/media';
import { type Account, type NewAccount, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;

beforeAll(async () => {
  stack = await sharedStack();
}, 240_000);

async function ready(options: NewAccount = {}): Promise<{
  account: Account;
  body: { image_key: string; face_key: string };
}> {
  const account = await stack.newAccount(options);
  const [image_key, face_key] = await Promise.all([
    account.api.upload(await faceless()),
    account.api.upload(await faceless('jpeg')),
  ]);
  return { account, body: { image_key, face_key } };
}

async function jobsOf(account: Account): Promise<string[]> {
  const list = JSON.parse(await stack.kubectl(['get', 'renderjobs', '-o', 'json'])) as {
    items: { metadata: { name: string }; spec: { account?: string } }[];
  };
  return list.items
    .filter(({ spec }) => spec.account === account.accountId)
    .map(({ metadata }) => metadata.name);
}

const keyed = (key: string) => ({ 'idempotency-key': key });

describe('A retry with the same Idempotency-Key returns the original job with no second charge and no duplicate render', () => {
  test('while it runs and after it ended', async () => {
    const { account, body } = await ready();
    const first = await account.api.swap(body, keyed('again'));
    const second = await account.api.swap(body, keyed('again'));
    expect([second.id, second.status_url]).toEqual([first.id, first.status_url]);
    await account.api.finished(first.id);
    const third = await account.api.swap(body, keyed('again'));
    expect([third.id, third.status_url]).toEqual([first.id, first.status_url]);
    expect(await jobsOf(account)).toEqual([first.id]);
  });

  test('a hundred at once are one job with one hold, and one answer, byte for byte', async () => {
    const { account, body } = await ready();
    const submit = () => account.api.post('/face-swap-image', body, keyed('a hundred'));
    const answers = await Promise.all(Array.from({ length: 100 }, submit));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    const [first] = answers;
    expect(first?.status).toBe(200);
    // All answers but the original one must be marked as repeats.
    const repeats = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true');
    expect(repeats).toHaveLength(99);
    const { id } = (first as Answer).body as Submitted;
    await account.api.finished(id);
    // `status` is that of the original answer, whatever has happened to the job since.
    const later = await submit();
    expect([later.text, later.headers.get('idempotent-replayed')]).toEqual([first?.text, 'true']);
    expect(await jobsOf(account)).toEqual([id]);
    // The job without a face costs nothing, and a second hold would still be open.
    expect((await account.api.balance()).balance_usd).toBe(100);
    expect(await stack.admin('account', 'show', { account: account.accountId })).toMatchObject({
      balance: 100,
      ledger_ok: true,
    });
  });

  test('the callback_url is part of the body', async () => {
    const { account, body } = await ready();
    const with_callback = { ...body, callback_url: 'https://example.com/hook' };
    const first = await account.api.swap(with_callback, keyed('hook'));
    expect((await account.api.swap(with_callback, keyed('hook'))).id).toBe(first.id);
    expectError(await account.api.post('/face-swap-image', body, keyed('hook')), 'invalid_input');
  });
});

test('the same Idempotency-Key with a different body is `invalid_input`, and the original stays as it was', async () => {
  const { account, body } = await ready();
  const first = await account.api.swap(body, keyed('other'));
  const swapped = { image_key: body.face_key, face_key: body.image_key };
  const message = expectError(
    await account.api.post('/face-swap-image', swapped, keyed('other')),
    'invalid_input',
  );
  expect(message).toMatch(/idempotency-key/i);
  expect((await account.api.swap(body, keyed('other'))).id).toBe(first.id);
});

test('other keys are other jobs, and keys are compared exactly', async () => {
  const { account, body } = await ready();
  const ids = new Set<string>();
  for (const key of ['key', 'KEY', 'key2', 'k e y']) ids.add((await account.api.swap(body, keyed(key))).id);
  expect(ids.size).toBe(4);
});

test('the same Idempotency-Key of another account is another job', async () => {
  const [one, two] = [await ready(), await ready()];
  const first = await one.account.api.swap(one.body, keyed('shared'));
  const second = await two.account.api.swap(two.body, keyed('shared'));
  expect(second.id).not.toBe(first.id);
});

test('another API key of the same account shares its Idempotency-Keys', async () => {
  const { account, body } = await ready();
  const first = await account.api.swap(body, keyed('per-account'));
  const second = await stack.admin('key', 'create', { account: account.accountId });
  const retried = await account.api.swap(body, {
    ...keyed('per-account'),
    authorization: `Bearer ${String(second.api_key)}`,
  });
  expect(retried.id).toBe(first.id);
});

describe('a refused submit does not use up its Idempotency-Key', () => {
  test('refused for its input, then sent right', async () => {
    const { account, body } = await ready();
    const wrong = { ...body, image_key: 'without-prefix' };
    expectError(await account.api.post('/face-swap-image', wrong, keyed('mended')), 'invalid_input');
    expect((await account.api.post('/face-swap-image', body, keyed('mended'))).status).toBe(200);
  });

  test('refused for the balance, then topped up', async () => {
    const { account, body } = await ready({ balanceUsd: 0 });
    expectError(await account.api.post('/face-swap-image', body, keyed('paid')), 'insufficient_balance');
    await stack.admin('account', 'topup', { account: account.accountId, usd: 5 });
    expect((await account.api.post('/face-swap-image', body, keyed('paid'))).status).toBe(200);
  });
});

test('an Idempotency-Key of absurd length is refused or kept apart, never an internal error', async () => {
  const { account, body } = await ready();
  const long = 'k'.repeat(4_000);
  const first = await account.api.post('/face-swap-image', body, keyed(long));
  const second = await account.api.post('/face-swap-image', body, keyed(`${long}x`));
  if (first.status === 200) {
    expect((first.body as Submitted).id).not.toBe((second.body as Submitted).id);
  } else {
    expectError(first, 'invalid_input');
    expectError(second, 'invalid_input');
  }
});
