import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: what an account gets for nothing has a limit, and `at_capacity` says which. */
let stack: Stack;

beforeAll(async () => {
  stack = await sharedStack();
}, 240_000);

const limit = (account: Account, flags: Record<string, number>) =>
  stack.admin('limit', 'set', { account: account.accountId, ...flags });

const { bytes, filename, contentType } = ADMIRAL;
const upload = async ({ api }: Account) => {
  const answer = await api.multipart([{ name: 'file', body: bytes, filename, contentType }]);
  const body = answer.body as { file_key: string; error: { code: string; message: string } };
  return { ...answer, body };
};

describe('Uploads', () => {
  test('of an account are taken as long as they fit together, however many come at once, and again after deletions', async () => {
    const account = await stack.newAccount();
    const most = Math.floor(1_000_000 / bytes.length);
    await limit(account, { 'stored-mb': 1 });
    const answers = await Promise.all(Array.from({ length: 32 }, () => upload(account)));
    const taken = answers.filter(({ status }) => status === 200);
    while (taken.length < most) {
      const more = await upload(account);
      expect(more.status).toBe(200);
      taken.push(more);
    }
    expect(taken).toHaveLength(most);
    const refused = await upload(account);
    expectError(refused, 'at_capacity');
    expect(refused.body.error.message).toContain('may have 1 MB together');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const limits = (await stack.admin('limit', 'show', { account: account.accountId })) as unknown as {
      name: string;
    }[];
    expect(limits.find(({ name }) => name === 'stored_mb')).toMatchObject({
      limit: 1,
      own: true,
      used: Math.round((most * bytes.length) / 1_000) / 1_000,
    });
    const key = taken[0]?.body.file_key ?? '';
    await account.api.request('DELETE', `/uploads/${key.replace('/', '%2F')}`);
    expect((await upload(account)).status).toBe(200);
  });

  test('of an account without a balance have a limit for the day, which a top-up lifts', async () => {
    const account = await stack.newAccount({ balanceUsd: 0 });
    await limit(account, { 'daily-mb': 0 });
    const refused = await upload(account);
    expectError(refused, 'at_capacity');
    expect(refused.body.error.message).toContain('0 MB a day');
    await stack.admin('account', 'topup', { account: account.accountId, usd: 1 });
    expect((await upload(account)).status).toBe(200);
  });
});

describe('Live sessions', () => {
  test('that nobody connects to are followed by pauses', async () => {
    const account = await stack.newAccount({ balanceUsd: 100 });
    const open = () => account.api.post('/voice/session', { duration_minutes: 1 });
    const opened = await Promise.all([open(), open(), open()]);
    expect(opened.map(({ status }) => status)).toEqual([200, 200, 200]);
    await eventually(
      'the end of sessions without a client',
      async () => {
        const { body } = await account.api.get('/sessions?open=true');
        return (body as unknown[]).length === 0 || undefined;
      },
      { withinMs: 40_000 },
    );
    const refused = await open();
    expectError(refused, 'at_capacity');
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(10);
    const { body } = await account.api.get('/usage');
    expect(body).toMatchObject(Array(3).fill({ reason: 'no_stream', charged_usd: 0 }));
  }, 90_000);
});
