import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { stoodStillSince } from '@semblance/testkit/stack/standstill';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;

beforeAll(async () => {
  stack = await sharedStack();
}, 240_000);

const limited = ({ status }: Answer) => status === 429;
const retryAfter = (answer: Answer | undefined) => Number(answer?.headers.get('retry-after'));

/**
 * Makes a burst within one window of a new key. A burst takes a second and a window a minute. If a window ends
 * during the burst, more calls are let through. Such a burst is repeated with another key, and so is one in which
 * the machine stood still.
 */
async function burst(
  calls: (account: Account) => Promise<Answer>[],
): Promise<{ account: Account; answers: Answer[]; at: number }> {
  for (let attempt = 0; ; attempt++) {
    const account = await stack.newAccount({ perMinute: 'default' });
    const at = Date.now();
    const began = performance.now();
    const answers = await Promise.all(calls(account));
    const took = (Date.now() - at) / 1000;
    // After a standstill, calls were answered late or made more than once.
    const interrupted = stoodStillSince(began);
    // The rest of the window at the end of the burst tells whether the window began before the burst.
    const left = Math.min(...answers.filter(limited).map(retryAfter));
    if ((left + took <= 60 && !interrupted) || attempt === 3) return { account, answers, at };
  }
}

describe('Request rate: 60 requests per minute per key by default, fixed window', () => {
  test('of 100 requests at once exactly 60 are served, then `rate_limited` (429) until the window ends', async () => {
    const { account, answers, at } = await burst(({ api }) =>
      Array.from({ length: 100 }, () => api.get('/balance')),
    );
    const refused = answers.filter(limited);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(refused).toHaveLength(40);
    for (const answer of refused) {
      expectError(answer, 'rate_limited');
      expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
      expect(retryAfter(answer)).toBeLessThanOrEqual(60);
    }

    // Another key of the same account has its own window.
    const second = await stack.admin('key', 'create', { account: account.accountId });
    const other = apiOf({ baseUrl: stack.api.baseUrl, apiKey: String(second.api_key) });
    expect((await other.get('/balance')).status).toBe(200);

    // It is enough to wait as long as the answer says, and calls in between do not make the wait longer.
    const [last] = refused.slice(-1);
    const reopens = at + (retryAfter(last) + 1.5) * 1000;
    expectError(await account.api.get('/balance'), 'rate_limited');
    await delay(Math.max(0, reopens - Date.now()));
    expect((await account.api.get('/balance')).status).toBe(200);
  }, 400_000);

  test('All calls count: reads, submits, uploads, refused ones', async () => {
    const { answers } = await burst(({ api }) =>
      Array.from({ length: 80 }, (_, i) => {
        if (i % 4 === 0) return api.get('/balance');
        if (i % 4 === 1) return api.post('/face-swap-image', {});
        if (i % 4 === 2) return api.get('/jobs/none');
        return api.get('/pricing');
      }),
    );
    expect(answers.filter(limited)).toHaveLength(20);
  });

  test('Raisable per key', async () => {
    const account = await stack.newAccount({ perMinute: 150 });
    const answers = await Promise.all(Array.from({ length: 140 }, () => account.api.get('/balance')));
    expect(answers.filter(limited)).toHaveLength(0);
    await stack.admin('key', 'limit', { key: account.keyId, 'per-minute': 10 });
    const { answers: after } = {
      answers: await Promise.all(Array.from({ length: 30 }, () => account.api.get('/balance'))),
    };
    expect(after.filter(limited).length).toBeGreaterThanOrEqual(20);
  });

  test('a key that is unknown is `unauthorized` however often it asks', async () => {
    const bad = apiOf({ baseUrl: stack.api.baseUrl, apiKey: 'nobody' });
    const answers = await Promise.all(Array.from({ length: 70 }, () => bad.get('/balance')));
    for (const answer of answers) expectError(answer, 'unauthorized');
  });
});
