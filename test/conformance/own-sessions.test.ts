import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: an account's list of its sessions, and the end of one. */
let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
}, 240_000);

interface SessionEntry {
  readonly session_id: string;
  readonly status: string;
  readonly ended_at: string | null;
  readonly charged_usd: number | null;
  readonly reason: string | null;
  readonly max_cost_usd: number;
}

const list = async (query = '', of = account) => {
  const { status, body } = await of.api.get(`/sessions${query}`);
  expect(status).toBe(200);
  return body as SessionEntry[];
};

const open = async () => {
  const { status, body } = await account.api.post('/voice/session', { duration_minutes: 5 });
  expect(status).toBe(200);
  return body as { readonly session_id: string; readonly max_cost_usd: number };
};

const end = (id: string, of = account) => of.api.request('DELETE', `/sessions/${id}`);

describe('GET /sessions and DELETE /sessions/{session_id}', () => {
  test('a session is listed from its opening on, ended by its account, and its money is free again', async () => {
    const before = await account.api.balance();
    const { session_id, max_cost_usd } = await open();
    expect((await list())[0]).toEqual({
      session_id,
      capability: 'voice',
      feature: 'voice_swap',
      status: 'queued',
      created_at: expect.stringMatching(/Z$/),
      ended_at: null,
      max_duration_sec: 300,
      max_cost_usd,
      streamed_sec: 0,
      charged_usd: null,
      reason: null,
    });
    const during = await account.api.balance();
    expect(during.balance_usd).toBe(before.balance_usd);
    expect(during.reserved_usd).toBeCloseTo(before.reserved_usd + max_cost_usd, 6);
    expect(during.available_usd).toBeCloseTo(before.available_usd - max_cost_usd, 6);

    const stranger = await stack.newAccount({ balanceUsd: 1 });
    expect(await list('', stranger)).toEqual([]);
    expectError(await end(session_id, stranger), 'not_found');

    expect((await end(session_id)).status).toBe(200);
    const ended = await eventually('the session to end', async () =>
      (await list()).find((one) => one.session_id === session_id && one.ended_at !== null),
    );
    expect(ended).toMatchObject({ status: 'failed', charged_usd: 0, reason: 'cancelled' });
    expect(await account.api.balance()).toEqual(before);
    const again = await end(session_id);
    expect([again.status, again.body]).toEqual([200, ended]);
  });

  test('`open` leaves out what has ended; `limit` and `before` page through the rest', async () => {
    const ids = [];
    for (let i = 0; i < 3; i++) ids.unshift((await open()).session_id);
    expect((await list('?open=true')).map((one) => one.session_id)).toEqual(ids);
    const [first] = await list('?limit=1');
    expect(first?.session_id).toBe(ids[0]);
    const rest = await list(`?limit=2&before=${first?.session_id}`);
    expect(rest.map((one) => one.session_id)).toEqual(ids.slice(1));
    await Promise.all(ids.flatMap((id) => [end(id), end(id)]));
    await eventually('all to end', async () => (await list('?open=true')).length === 0 || undefined);
  });

  test.each(['?limit=0', '?limit=501', '?limit=x', '?open=1', '?before=x', '?limit=1&limit=2'])(
    '%s is invalid_input',
    async (query) => {
      expectError(await account.api.get(`/sessions${query}`), 'invalid_input');
    },
  );

  test.each(['ses-01k9x3v7m2q8r5t1w4y6z0abcd', 'job-1', '%00', 'a'.repeat(500)])(
    'ending %s is not_found',
    async (id) => {
      expectError(await end(id), 'not_found');
    },
  );

  test('without a key nothing is told', async () => {
    const nobody = apiOf({ baseUrl: account.api.baseUrl });
    expectError(await nobody.get('/sessions'), 'unauthorized');
    expectError(await nobody.get('/sessions?limit=x'), 'unauthorized');
    expectError(await nobody.request('DELETE', '/sessions/x'), 'unauthorized');
  });
});
