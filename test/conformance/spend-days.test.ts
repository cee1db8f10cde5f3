import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: what was spent by day. */
let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 10 });
}, 240_000);

const days = async (query = '', of = account) => {
  const { status, body } = await of.api.get(`/usage/days${query}`);
  expect(status).toBe(200);
  return (body as { days: { day: string; spent_usd: number }[] }).days;
};

describe('GET /usage/days', () => {
  test('has each day up to today, and sums to what the balance says was spent', async () => {
    const empty = await days();
    expect(empty).toHaveLength(30);
    expect(empty.every(({ spent_usd }) => spent_usd === 0)).toBe(true);
    const [image_key, face_key] = await Promise.all([
      account.api.upload(ASTRONAUT),
      account.api.upload(ADMIRAL),
    ]);
    await account.api.finished((await account.api.swap({ image_key, face_key })).id);
    const year = await days('?days=366');
    expect(year).toHaveLength(366);
    expect(year.map(({ day }) => day)).toEqual(year.map(({ day }) => day).sort());
    const spent = year.reduce((sum, { spent_usd }) => sum + spent_usd, 0);
    expect(spent).toBeGreaterThan(0);
    expect(spent).toBeCloseTo((await account.api.balance()).total_spent_usd, 6);
    const other = await days('', await stack.newAccount());
    expect(other.every(({ spent_usd }) => spent_usd === 0)).toBe(true);
  });

  test.each(['0', '367', '-1', '1.5', 'x', '', '1&days=2'])('days=%s is refused', async (value) => {
    expectError(await account.api.get(`/usage/days?days=${value}`), 'invalid_input');
  });
});
