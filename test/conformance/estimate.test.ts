import { apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, largePortrait, wav } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let body: { capability: string; image_key: string; face_key: string };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 1 });
  const [image_key, face_key] = await Promise.all([
    account.api.upload(await largePortrait(2_000)),
    account.api.upload(ADMIRAL),
  ]);
  body = { capability: 'face-swap-image', image_key, face_key };
}, 240_000);

const estimate = async (api = account.api, value: unknown = body) => {
  const answer = await api.post('/estimate', value);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Record<string, unknown> & { hold_usd: number };
};
const setRates = (usd: number, minimum: number) =>
  stack.admin('rates', 'set', {
    capability: 'face-swap-image',
    account: account.accountId,
    'rate-usd': usd,
    'minimum-usd': minimum,
  });

describe('POST /estimate answers what a submit would hold', () => {
  test('of the caller’s own rates, which the submit then holds; nothing is held or made before it', async () => {
    const before = await account.api.balance();
    const { capability: _, ...submit } = body;
    const { hold_usd, ...rest } = await estimate();
    expect(rest).toEqual({
      capability: 'face-swap-image',
      feature: 'photo_swap',
      rate_usd: expect.any(Number),
      unit: 'image',
      minimum_usd: expect.any(Number),
      balance_sufficient: true,
      cap_sufficient: true,
    });
    expect(await account.api.balance()).toEqual(before);
    expect((await account.api.get('/usage')).body).toEqual([]);
    const { id } = await account.api.swap(submit);
    const during = await account.api.balance();
    if ((await account.api.job(id)).charged_usd === null)
      expect(during.balance_usd).toBeCloseTo(before.balance_usd - hold_usd, 6);
    await account.api.finished(id);
  });

  test('Rates that change while work runs do not change what was quoted at submit', async () => {
    await setRates(0.02, 0.03);
    const quoted = await estimate();
    expect(quoted).toMatchObject({ rate_usd: 0.02, minimum_usd: 0.03 });
    const { capability: _, ...submit } = body;
    const { id } = await account.api.swap(submit);
    await setRates(0.3, 0.3);
    expect(await estimate()).toMatchObject({ rate_usd: 0.3 });
    // max(minimum charge, rate × one image) of the quote
    expect((await account.api.finished(id)).charged_usd).toBe(0.03);
    const card = (await account.api.get('/pricing')).body as {
      capabilities: { capability: string; rates: unknown[]; minimum_usd: number }[];
    };
    // With a key, the caller's own rates are returned.
    expect(card.capabilities.find(({ capability }) => capability === 'face-swap-image')).toMatchObject({
      rates: [{ when: {}, rate_usd: 0.3 }],
      minimum_usd: 0.3,
    });
  });

  test('`balance_sufficient` says whether the submit would be `insufficient_balance`', async () => {
    const poor = await stack.newAccount({ balanceUsd: 0 });
    const [image_key, face_key] = await Promise.all([poor.api.upload(ASTRONAUT), poor.api.upload(ADMIRAL)]);
    const submit = { image_key, face_key };
    const asked = () => estimate(poor.api, { capability: 'face-swap-image', ...submit });
    const { hold_usd, balance_sufficient } = await asked();
    expect(balance_sufficient).toBe(false);
    expectError(await poor.api.post('/face-swap-image', submit), 'insufficient_balance');
    await stack.admin('account', 'topup', { account: poor.accountId, usd: hold_usd });
    expect((await asked()).balance_sufficient).toBe(true);
    expect((await poor.api.post('/face-swap-image', submit)).status).toBe(200);
    expect((await asked()).balance_sufficient).toBe(false);
  });

  test('`cap_sufficient` says whether a cap would refuse the submit, in the same words', async () => {
    const capped = await stack.newAccount({ balanceUsd: 10 });
    const [image_key, face_key] = await Promise.all([
      capped.api.upload(ASTRONAUT),
      capped.api.upload(ADMIRAL),
    ]);
    const submit = { image_key, face_key };
    const asked = () => estimate(capped.api, { capability: 'face-swap-image', ...submit });
    const { hold_usd } = await asked();
    const cap = (usd: number) =>
      stack.admin('cap', 'set', { account: capped.accountId, 'cap-day': usd.toFixed(6) });
    await cap(hold_usd - 0.000001);
    const answer = await asked();
    expect(answer).toMatchObject({ balance_sufficient: true, cap_sufficient: false });
    const refused = await capped.api.post('/face-swap-image', submit);
    expect(expectError(refused, 'insufficient_balance')).toBe(answer.cap_message);
    await cap(hold_usd);
    expect(await asked()).toMatchObject({ cap_sufficient: true });
    expect((await asked()).cap_message).toBeUndefined();
    expect((await capped.api.post('/face-swap-image', submit)).status).toBe(200);
  });

  test('an Idempotency-Key has no effect: the submit that carries it is the first', async () => {
    const key = { 'idempotency-key': 'estimated' };
    const { capability: _, ...submit } = body;
    await account.api.post('/estimate', body, key);
    const answer = await account.api.post('/face-swap-image', submit, key);
    expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([200, null]);
    await account.api.finished((answer.body as { id: string }).id);
  });
});

describe('POST /estimate is refused as the submit would be', () => {
  test.each<[string, (good: typeof body) => unknown]>([
    ['no capability', ({ capability: _, ...rest }) => rest],
    ['an unknown one', (good) => ({ ...good, capability: 'mind-swap' })],
    ['one of sessions', (good) => ({ ...good, capability: 'voice' })],
    ['a missing field', ({ face_key: _, ...rest }) => rest],
    ['a malformed file_key', (good) => ({ ...good, face_key: 'uploads/x' })],
    ['an unknown file_key', (good) => ({ ...good, face_key: 'api/up-unknown' })],
    ['a callback_url that is none', (good) => ({ ...good, callback_url: 'nowhere' })],
    ['an array', () => []],
  ])('`invalid_input`: %s', async (_name, make) => {
    expectError(await account.api.post('/estimate', make(body)), 'invalid_input');
  });

  test('a file of another kind, and another account’s, are `invalid_input`', async () => {
    const stranger = await stack.newAccount();
    for (const face_key of [await account.api.upload(wav()), await stranger.api.upload(ADMIRAL)])
      expectError(await account.api.post('/estimate', { ...body, face_key }), 'invalid_input');
  });

  test('a capability without an engine is `capability_unavailable`', async () => {
    const card = (await apiOf({ baseUrl: stack.api.baseUrl }).get('/pricing')).body as {
      capabilities: { capability: string; enabled: boolean }[];
    };
    if (card.capabilities.find(({ capability }) => capability === 'motion-control')?.enabled) return;
    const request = {
      capability: 'motion-control',
      image_key: body.image_key,
      motion_video_key: body.face_key,
    };
    expectError(await account.api.post('/estimate', request), 'capability_unavailable');
  });

  test('without a key: `unauthorized`', async () => {
    expectError(await apiOf({ baseUrl: account.api.baseUrl }).post('/estimate', body), 'unauthorized');
  });
});
