import type { Api } from '@semblance/testkit/stack/api';
import { apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, longPortrait } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

interface Entry {
  id: string;
  endpoint: string;
  feature: string;
  status: string;
  charged_usd: number;
  reason: string | null;
  created_at: string;
}
interface Summary {
  total_calls: number;
  succeeded: number;
  failed: number;
  in_flight: number;
  total_spent_usd: number;
  per_feature: { feature: string; calls: number; spend_usd: number }[];
}

let stack: Stack;
/** Account with three calls: one that succeeds, one that fails, one that is cancelled. */
let account: Account;
let ids: string[];

const usage = async (api: Api, query = '') => {
  const answer = await api.get(`/usage${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Entry[];
};
const summary = async (api: Api, query = '') => {
  const answer = await api.get(`/usage/summary${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Summary;
};

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  const { api } = account;
  const [portrait, face, plain, large] = await Promise.all([
    api.upload(ASTRONAUT),
    api.upload(ADMIRAL),
    api.upload(await faceless()),
    // Its render is long, so that the job is cancelled before its end.
    api.upload(await longPortrait()),
  ]);
  const good = await api.swap({ image_key: portrait, face_key: face });
  const bad = await api.swap({ image_key: plain, face_key: face });
  const ended = await api.swap({ image_key: large, face_key: face });
  await api.request('POST', `/jobs/${ended.id}/cancel`);
  ids = [good.id, bad.id, ended.id];
  for (const id of ids) await api.finished(id);
}, 240_000);

describe('GET /usage', () => {
  test('Response: array of usage entries, with exactly the fields of the table', async () => {
    for (const entry of await usage(account.api)) {
      expect(Object.keys(entry)).toEqual([
        'id',
        'endpoint',
        'feature',
        'status',
        'charged_usd',
        'reason',
        'created_at',
      ]);
      // `endpoint`: the capability path segment; `feature`: the capability name in snake_case form
      expect([entry.endpoint, entry.feature]).toEqual(['face-swap-image', 'photo_swap']);
      // `created_at`: ISO 8601 UTC timestamp
      expect(entry.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      expect(Math.abs(Date.parse(entry.created_at) - Date.now())).toBeLessThan(600_000);
    }
  });

  test('Read status for the outcome and reason for the explanation; the newest call comes first', async () => {
    const entries = await usage(account.api);
    const outcomes = entries.map(({ id, status, reason }) => [id, status, reason]);
    expect(outcomes).toEqual([
      [ids[2], 'failed', 'cancelled'],
      [ids[1], 'failed', 'render_failed'],
      [ids[0], 'succeeded', null],
    ]);
    const charges = await Promise.all(entries.map(async ({ id }) => (await account.api.job(id)).charged_usd));
    expect(entries.map(({ charged_usd }) => charged_usd)).toEqual(charges);
    expect(charges.slice(0, 2)).toEqual([0, 0]);
  });

  test('a call under way is listed as it stands, charged nothing yet', async () => {
    const fresh = await stack.newAccount();
    const key = await fresh.api.upload(await faceless());
    const { id } = await fresh.api.swap({ image_key: key, face_key: key });
    const [entry] = await usage(fresh.api);
    expect(entry).toMatchObject({ id, charged_usd: 0 });
    expect(['queued', 'processing', 'failed']).toContain(entry?.status);
    if (entry?.status !== 'failed') expect(entry?.reason).toBeNull();
    await fresh.api.finished(id);
    expect((await usage(fresh.api))[0]).toMatchObject({ status: 'failed', reason: 'render_failed' });
  });

  test('`limit` (int, maximum 500): so many of the newest', async () => {
    expect((await usage(account.api, '?limit=2')).map(({ id }) => id)).toEqual([ids[2], ids[1]]);
    expect(await usage(account.api, '?limit=500')).toHaveLength(3);
  });

  test('`from`, `to` bound the range as [from, to), half open', async () => {
    const [third, second, first] = (await usage(account.api)) as [Entry, Entry, Entry];
    const found = async (query: string) => (await usage(account.api, query)).map(({ id }) => id);
    expect(await found(`?from=${second.created_at}`)).toEqual([third.id, second.id]);
    expect(await found(`?to=${second.created_at}`)).toEqual([first.id]);
    expect(await found(`?from=${first.created_at}&to=${third.created_at}`)).toEqual([second.id, first.id]);
    expect(await found(`?from=${first.created_at}&to=${first.created_at}`)).toEqual([]);
    // The day may end between the calls, so the test asks for both days.
    const today = first.created_at.slice(0, 10);
    const after = new Date(Date.parse(third.created_at) + 86_400_000).toISOString().slice(0, 10);
    expect(await found(`?from=${today}&to=${after}`)).toHaveLength(3);
    expect(await found(`?to=${today}`)).toHaveLength(0);
    expect(await found('?from=2000-01-01T00:00:00%2B02:00')).toHaveLength(3);
  });

  test('pages: `to` with the moment of the last entry goes on where it ended', async () => {
    const seen: string[] = [];
    for (let query = '?limit=1'; ; ) {
      const [entry] = await usage(account.api, query);
      if (!entry) break;
      seen.push(entry.id);
      query = `?limit=1&to=${entry.created_at}`;
    }
    expect(seen).toEqual([...ids].reverse());
  });

  test.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=501'],
    ['limit', 'limit=many'],
    ['limit', 'limit='],
    ['limit', 'limit=1&limit=2'],
    ['from', 'from=yesterday'],
    ['from', 'from=2026-02-30'],
    ['from', 'from=1767225600'],
    ['to', 'to=2026-01-01T00:00:00'],
    ['to', 'to='],
    ['from', 'from=2026-01-02&to=2026-01-01'],
  ])('A field that fails validation is `invalid_input`, and is named: %s in ?%s', async (field, query) => {
    expect(expectError(await account.api.get(`/usage?${query}`), 'invalid_input')).toMatch(
      new RegExp(`\\b${field}\\b`),
    );
    if (field !== 'limit') expectError(await account.api.get(`/usage/summary?${query}`), 'invalid_input');
  });

  test('another account’s calls are nobody else’s business', async () => {
    const stranger = await stack.newAccount();
    expect(await usage(stranger.api)).toEqual([]);
    expect(await summary(stranger.api)).toEqual({
      total_calls: 0,
      succeeded: 0,
      failed: 0,
      in_flight: 0,
      total_spent_usd: 0,
      per_feature: [],
    });
  });

  test('without a key: `unauthorized`', async () => {
    const anonymous = apiOf({ baseUrl: stack.api.baseUrl });
    expectError(await anonymous.get('/usage'), 'unauthorized');
    expectError(await anonymous.get('/usage/summary?from=x'), 'unauthorized');
  });
});

describe('GET /usage/summary', () => {
  test('Usage summary record: exactly its fields, and the sums of the calls', async () => {
    const { total_spent_usd } = await account.api.balance();
    expect(await summary(account.api)).toEqual({
      total_calls: 3,
      succeeded: 1,
      failed: 2,
      in_flight: 0,
      total_spent_usd,
      per_feature: [{ feature: 'photo_swap', calls: 3, spend_usd: total_spent_usd }],
    });
  });

  test('`from`, `to` bound it as they bound the list', async () => {
    const [third, second, first] = (await usage(account.api)) as [Entry, Entry, Entry];
    expect(await summary(account.api, `?from=${second.created_at}`)).toMatchObject({
      total_calls: 2,
      failed: 2,
      total_spent_usd: 0,
    });
    expect(await summary(account.api, `?from=${first.created_at}&to=${second.created_at}`)).toMatchObject({
      total_calls: 1,
      succeeded: 1,
      total_spent_usd: first.charged_usd,
    });
    expect(await summary(account.api, `?to=${third.created_at}`)).toMatchObject({ total_calls: 2 });
  });

  test('total_calls equals succeeded + failed + in_flight, at every moment; per_feature sums to the totals', async () => {
    const busy = await stack.newAccount();
    const [plain, portrait, face] = await Promise.all([
      busy.api.upload(await faceless()),
      busy.api.upload(ASTRONAUT),
      busy.api.upload(ADMIRAL),
    ]);
    let made = 0;
    let running = true;
    const work = (async () => {
      const jobs: string[] = [];
      for (let i = 0; i < 8; i++) {
        made++;
        jobs.push((await busy.api.swap({ image_key: i % 4 ? plain : portrait, face_key: face })).id);
        if (i % 4 === 3) await busy.api.request('POST', `/jobs/${jobs.at(-1)}/cancel`);
      }
      for (const id of jobs) await busy.api.finished(id);
    })().finally(() => {
      running = false;
    });
    const seen: Summary[] = [];
    while (running) {
      const before = seen.at(-1)?.total_calls ?? 0;
      const now = await summary(busy.api);
      expect(now.total_calls).toBe(now.succeeded + now.failed + now.in_flight);
      expect(now.total_calls).toBeGreaterThanOrEqual(before);
      expect(now.total_calls).toBeLessThanOrEqual(made);
      const sum = (of: (feature: Summary['per_feature'][number]) => number) =>
        now.per_feature.reduce((total, feature) => total + of(feature), 0);
      expect(sum(({ calls }) => calls)).toBe(now.total_calls);
      expect(sum(({ spend_usd }) => spend_usd)).toBeCloseTo(now.total_spent_usd, 6);
      seen.push(now);
    }
    await work;
    expect(await summary(busy.api)).toMatchObject({ total_calls: 8, in_flight: 0 });
    expect(seen.some(({ in_flight }) => in_flight > 0)).toBe(true);
  });

  test('The summary is computed from the full history, also where the list is cut', async () => {
    expect(await usage(account.api, '?limit=1')).toHaveLength(1);
    expect((await summary(account.api, '?limit=1')).total_calls).toBe(3);
  });

  test('admin usage shows the same', async () => {
    const flags = { account: account.accountId };
    expect(await stack.admin('usage', 'summary', flags)).toEqual(await summary(account.api));
    expect(await stack.admin('usage', 'list', flags)).toEqual(await usage(account.api));
  });
});
