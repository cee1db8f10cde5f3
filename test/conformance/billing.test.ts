import { type Api, apiOf, type Balance } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, largePortrait } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

interface Price {
  capability: string;
  feature: string;
  enabled: boolean;
  unit: string;
  rates: { when: Record<string, string>; rate_usd: number }[];
  minimum_usd: number;
  hold: { units: number };
}
interface RateCard {
  currency: string;
  version: number;
  effective_at: string;
  capabilities: Price[];
}

let stack: Stack;
let photoSwap: Price;

beforeAll(async () => {
  stack = await sharedStack();
  const card = (await apiOf({ baseUrl: stack.api.baseUrl }).get('/pricing')).body as RateCard;
  photoSwap = card.capabilities.find(({ capability }) => capability === 'face-swap-image') as Price;
}, 240_000);

const rate = () => photoSwap.rates[0]?.rate_usd ?? Number.NaN;
/** Returns the charge of a Photo Swap: max(minimum charge, rate × one image). */
const charge = () => Math.max(photoSwap.minimum_usd, rate());
/** Returns the hold that a submit places. */
const hold = () => Math.max(photoSwap.minimum_usd, rate() * photoSwap.hold.units);

async function inputs(account: Account, image = ASTRONAUT) {
  const [image_key, face_key] = await Promise.all([account.api.upload(image), account.api.upload(ADMIRAL)]);
  return { image_key, face_key };
}

const BALANCE_FIELDS: (keyof Balance)[] = [
  'balance_usd',
  'total_spent_usd',
  'total_topped_up_usd',
  'spent_this_week_usd',
  'spent_this_month_usd',
  'spent_this_year_usd',
];
const ADDED_FIELDS: (keyof Balance)[] = ['held_usd', 'reserved_usd', 'available_usd'];

describe('Balance record', () => {
  test('all fields are numbers in USD, and the others are those of the additions', async () => {
    const { api } = await stack.newAccount({ balanceUsd: 12.345678 });
    const answer = await api.get('/balance');
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body as object).sort()).toEqual([...BALANCE_FIELDS, ...ADDED_FIELDS].sort());
    expect(answer.body).toEqual({
      balance_usd: 12.345678,
      total_spent_usd: 0,
      total_topped_up_usd: 12.345678,
      spent_this_week_usd: 0,
      spent_this_month_usd: 0,
      spent_this_year_usd: 0,
      held_usd: 0,
      reserved_usd: 0,
      available_usd: 12.345678,
    });
  });

  test('a top-up raises what can be spent and what was topped up', async () => {
    const { accountId, api } = await stack.newAccount({ balanceUsd: 1 });
    await stack.admin('account', 'topup', { account: accountId, usd: 0.000001 });
    expect(await api.balance()).toMatchObject({ balance_usd: 1.000001, total_topped_up_usd: 1.000001 });
  });

  test('sums stay exact: 0.1 and 0.2 are 0.3', async () => {
    const { accountId, api } = await stack.newAccount({ balanceUsd: 0.1 });
    await stack.admin('account', 'topup', { account: accountId, usd: 0.2 });
    expect((await api.balance()).balance_usd).toBe(0.3);
  });
});

describe('A submit places a conservative hold; when the job goes terminal it is reconciled', () => {
  test('the hold while it runs, the charge afterwards, and what is left is returned', async () => {
    const large = await largePortrait(2600);
    // On a busy machine a job may end before the balance is read; then another job is submitted.
    const quoted = async () => {
      const account = await stack.newAccount({ balanceUsd: 10 });
      const { id } = await account.api.swap(await inputs(account, large));
      const during = await account.api.balance();
      return { account, id, during, ended: (await account.api.job(id)).charged_usd !== null };
    };
    let { account, id, during, ended } = await quoted();
    for (let left = 4; ended && left > 0; left--) ({ account, id, during, ended } = await quoted());
    expect(ended, 'the balance was read before the job ended').toBe(false);
    expect(during).toMatchObject({ total_spent_usd: 0, total_topped_up_usd: 10, reserved_usd: 0 });
    expect(during.held_usd).toBeCloseTo(hold(), 6);
    expect(during.available_usd).toBe(during.balance_usd);
    expect(during.balance_usd).toBeCloseTo(10 - hold(), 6);
    const { status, charged_usd } = await account.api.finished(id);
    expect(status).toBe('succeeded');
    expect(charged_usd).toBeCloseTo(charge(), 6);
    const after = await account.api.balance();
    for (const name of BALANCE_FIELDS) {
      const expected = { balance_usd: 10 - charge(), total_topped_up_usd: 10 }[name as string] ?? charge();
      expect(after[name], name).toBeCloseTo(expected, 6);
    }
    expect(await stack.admin('account', 'show', { account: account.accountId })).toMatchObject({
      ledger_ok: true,
    });
  });

  test('several jobs at once: every dollar is somewhere at every moment', async () => {
    const account = await stack.newAccount({ balanceUsd: 10 });
    const body = await inputs(account);
    const jobs = await Promise.all([1, 2, 3, 4].map(() => account.api.swap(body)));
    const looks: Balance[] = [];
    const ended = Promise.all(jobs.map(({ id }) => account.api.finished(id)));
    let running = true;
    void ended.finally(() => {
      running = false;
    });
    while (running) {
      looks.push(await account.api.balance());
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await ended;
    for (const { balance_usd, total_spent_usd, total_topped_up_usd } of looks) {
      const held = total_topped_up_usd - total_spent_usd - balance_usd;
      const open = held / hold();
      expect(open, 'a whole number of holds').toBeCloseTo(Math.round(open), 4);
      expect(Math.round(open)).toBeLessThanOrEqual(4);
      expect(held).toBeGreaterThanOrEqual(-1e-9);
    }
    expect((await account.api.balance()).balance_usd).toBeCloseTo(10 - 4 * charge(), 6);
  });
});

describe('When the balance does not cover the hold, the response is `insufficient_balance` (402)', () => {
  test('nothing is queued and nothing is held', async () => {
    const account = await stack.newAccount({
      balanceUsd: (hold() - 0.000001).toFixed(6),
    });
    const before = await account.api.balance();
    expectError(await account.api.post('/face-swap-image', await inputs(account)), 'insufficient_balance');
    expect(await account.api.balance()).toEqual(before);
    const list = await stack.kubectl(['get', 'renderjobs', '-o', 'jsonpath={.items[*].spec.account}']);
    expect(list).not.toContain(account.accountId);
  });

  test('a balance of exactly the hold is enough, once', async () => {
    const account = await stack.newAccount({ balanceUsd: hold() });
    const face_key = await account.api.upload(ADMIRAL);
    const body = { image_key: await account.api.upload(await largePortrait(2000)), face_key };
    expect((await account.api.post('/face-swap-image', body)).status).toBe(200);
    expectError(await account.api.post('/face-swap-image', body), 'insufficient_balance');
  });

  test('twenty submits at once spend no dollar twice', async () => {
    const account = await stack.newAccount({
      balanceUsd: (3 * hold() + hold() / 2).toFixed(6),
    });
    const plain = await account.api.upload(await faceless('png', 64, 64));
    const body = { image_key: await account.api.upload(await largePortrait(2000)), face_key: plain };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => account.api.post('/face-swap-image', body)),
    );
    const refused = answers.filter(({ status }) => status !== 200);
    for (const answer of refused) expectError(answer, 'insufficient_balance', 'at_capacity');
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(3);
    expect((await account.api.balance()).balance_usd).toBeGreaterThanOrEqual(0);
    await Promise.all(
      answers
        .filter(({ status }) => status === 200)
        .map(({ body: submitted }) => account.api.finished((submitted as { id: string }).id)),
    );
    const { balance_usd, total_topped_up_usd } = await account.api.balance();
    expect(balance_usd).toBe(total_topped_up_usd);
  });
});

describe('GET /pricing', () => {
  const FEATURES: Record<string, [string, string]> = {
    'character-swap': ['identity_swap', 'second'],
    'face-swap': ['video_swap', 'second'],
    'face-swap-image': ['photo_swap', 'image'],
    'motion-control': ['motion_transfer', 'second'],
    avatar: ['avatar', 'second'],
    'lip-sync': ['lip_sync', 'second'],
    'full-live-swap': ['live_swap_pro', 'minute'],
    voice: ['voice_swap', 'minute'],
  };

  test('Without a key the public rate card is returned', async () => {
    const answer = await apiOf({ baseUrl: stack.api.baseUrl }).get('/pricing');
    expect(answer.status).toBe(200);
    const card = answer.body as RateCard;
    expect(card).toMatchObject({ currency: 'USD', version: expect.any(Number) });
    expect(new Date(card.effective_at).toISOString().slice(0, 19)).toBe(card.effective_at.slice(0, 19));
    expect(Object.fromEntries(card.capabilities.map((c) => [c.capability, [c.feature, c.unit]]))).toEqual(
      FEATURES,
    );
    for (const price of card.capabilities) {
      expect(price.enabled, price.capability).toBeTypeOf('boolean');
      expect(price.minimum_usd, price.capability).toBeGreaterThanOrEqual(0);
      expect(price.hold, price.capability).toBeTypeOf('object');
      expect(price.rates.length, price.capability).toBeGreaterThan(0);
      for (const { when, rate_usd } of price.rates) {
        expect(when).toBeTypeOf('object');
        expect(rate_usd).toBeGreaterThan(0);
      }
    }
    expect(photoSwap.enabled).toBe(true);
  });

  test('With a key, the caller’s own rates are returned: the same card where none were agreed', async () => {
    const { api } = await stack.newAccount();
    const own = await api.get('/pricing');
    expect(own.status).toBe(200);
    expect(own.body).toEqual((await apiOf({ baseUrl: api.baseUrl }).get('/pricing')).body);
  });

  test('Rates and minimum charges are administrator settings: with a key, the caller’s own; a job is charged max(minimum charge, rate x units)', async () => {
    const own = await stack.newAccount();
    const priceFor = async (api: Api) => {
      const card = (await api.get('/pricing')).body as RateCard;
      return card.capabilities.find(({ capability }) => capability === 'face-swap-image');
    };
    const body = await inputs(own);
    for (const [rate_usd, minimum_usd, charge] of [
      [0.07, 0.01, 0.07],
      [0.02, 0.05, 0.05],
    ] as const) {
      await stack.admin('rates', 'set', {
        capability: 'face-swap-image',
        account: own.accountId,
        'rate-usd': String(rate_usd),
        'minimum-usd': String(minimum_usd),
      });
      expect(await priceFor(own.api)).toMatchObject({ minimum_usd, rates: [{ when: {}, rate_usd }] });
      const { id } = await own.api.swap(body);
      expect((await own.api.finished(id)).charged_usd).toBe(charge);
    }
    const { rates, minimum_usd } = photoSwap;
    for (const api of [apiOf({ baseUrl: own.api.baseUrl }), (await stack.newAccount()).api])
      expect(await priceFor(api), 'nobody else’s').toMatchObject({ rates, minimum_usd });
  });

  test('With a key that is not good: `unauthorized`', async () => {
    const bad = apiOf({ baseUrl: stack.api.baseUrl, apiKey: 'not-a-key' });
    expectError(await bad.get('/pricing'), 'unauthorized');
  });
});
